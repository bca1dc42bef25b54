#include "canter/run.hpp"

#include <algorithm>
#include <utility>

#include "canter/checkpoint/store.hpp"
#include "canter/env/registry.hpp"
#include "config.hpp"

namespace canter {
namespace {

// CleanRL's ppo_continuous_action.py: the defaults of our structs are its values, but for the time
// limit, which it takes for a termination
void apply_cleanrl_continuous(RunOptions& run) {
  run.pool.num_envs = 1;
  run.policy = {.hidden = {64, 64}};
  run.trainer.ppo = {.horizon = 2048,
                     .num_epochs = 10,
                     .num_minibatches = 32,
                     .learning_rate = 3e-4f,
                     .truncation = TruncationHandling::terminal};
  run.trainer.total_steps = 1'000'000;
}

// CleanRL's ppo.py for classic control: no normalisation of observations or rewards
void apply_cleanrl_discrete(RunOptions& run) {
  run.pool.num_envs = 4;
  run.policy = {.hidden = {64, 64}, .normalize_observations = false, .normalize_rewards = false};
  run.policy.clip_observation = 0;
  run.trainer.ppo = {.horizon = 128,
                     .num_epochs = 4,
                     .num_minibatches = 4,
                     .learning_rate = 2.5e-4f,
                     .entropy_coefficient = 0.01f,
                     .truncation = TruncationHandling::terminal,
                     .clip_reward = 0};
  run.trainer.total_steps = 500'000;
}

// many environments, rollouts that are short for each of them, a true bootstrap at the time limit.
// continuous: chosen by trial on HalfCheetah-v5, where it passes a return of 5000 within 2M steps
void apply_fast(RunOptions& run, bool discrete) {
  PpoOptions& ppo = run.trainer.ppo;
  if (discrete) {
    run.pool.num_envs = 16;
    ppo = {.horizon = 64, .num_epochs = 10, .num_minibatches = 4, .learning_rate = 1e-3f};
    run.trainer.total_steps = 100'000;
  } else {
    run.pool.num_envs = 64;
    run.policy.log_std_init = -0.5f;
    ppo = {.horizon = 128, .num_epochs = 10, .num_minibatches = 32, .learning_rate = 6e-4f};
    run.trainer.total_steps = 2'000'000;
  }
}

// tasks with a model file act through its actuators; the others say it without needing a file
bool is_discrete(std::string_view env) {
  return model_file(env).empty() &&
         make_pool(env, {.num_envs = 1, .num_threads = 1})->spec().is_discrete();
}

RunOptions apply(RunOptions run, const OptionValues& arguments) {
  for (const auto& [name, value] : arguments) set_option(run, name, value);
  return run;
}

}  // namespace

std::vector<std::string> preset_names() {
  return {"cleanrl", "fast"};
}

RunOptions preset(std::string_view name, std::string_view env) {
  const std::vector<std::string> names = preset_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw_unknown("preset", name, names);
  RunOptions run;
  run.env = env;
  run.preset = name;
  const bool discrete = is_discrete(env);
  if (name == "fast") {
    apply_fast(run, discrete);
  } else if (discrete) {
    apply_cleanrl_discrete(run);
  } else {
    apply_cleanrl_continuous(run);
  }
  return run;
}

void set_option(RunOptions& run, std::string_view name, const OptionValue& value) {
  set_option<RunOptions>(run, name, value);
}

OptionValues option_values(const RunOptions& run) {
  OptionValues values = option_values<RunOptions>(run);
  OptionValues unique;
  for (auto& value : values) {
    const bool known = std::any_of(unique.begin(), unique.end(),
                                   [&](const auto& item) { return item.first == value.first; });
    if (!known) unique.push_back(std::move(value));
  }
  return unique;
}

RunOptions resolve_run(std::string_view env, std::string_view preset_name,
                       const OptionValues& arguments) {
  RunOptions run;
  run.env = env;
  if (!preset_name.empty()) run = preset(preset_name, env);
  run = apply(std::move(run), arguments);
  if (run.trainer.directory.empty())
    run.trainer.directory = "runs/" + run.env + "-seed" + std::to_string(run.trainer.seed);

  const std::filesystem::path directory = run.trainer.directory;
  std::error_code ignored;  // what cannot be examined is refused when the run begins
  if (!std::filesystem::exists(directory / "checkpoints", ignored) ||
      CheckpointStore(directory / "checkpoints").steps().empty())
    return run;
  RunOptions saved = load_config(directory / "config.toml");
  RunOptions wanted = apply(saved, arguments);
  wanted.env = env;
  std::vector<std::string> different = detail::differences(wanted, saved);
  if (!preset_name.empty() && preset_name != saved.preset)
    different.push_back("preset is \"" + std::string(preset_name) + "\", but \"" + saved.preset +
                        "\" in the saved run");
  if (!different.empty()) {
    std::string message = "'" + directory.string() + "' holds a run with other options:";
    for (const std::string& line : different) message += "\n  " + line;
    throw InvalidArgument(message + "\nchoose another directory, or leave these options out");
  }
  wanted.trainer.directory = directory;
  return wanted;
}

std::unique_ptr<Trainer> make_trainer(const RunOptions& run) {
  std::shared_ptr<Communicator> communicator = Communicator::from_environment();
  PoolOptions options = run.pool;
  if (options.env_offset == 0 && options.seeds.empty())
    options.env_offset = std::int64_t{communicator->rank()} * options.num_envs;
  std::shared_ptr<EnvPool> pool = make_pool(run.env, options);
  std::shared_ptr<Policy> policy = make_mlp_policy(pool->spec(), run.policy, run.trainer.seed);
  return std::make_unique<Trainer>(pool, policy, communicator, run.trainer, run.preset);
}

}  // namespace canter
