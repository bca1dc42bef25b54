#include "canter/run.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "canter/canter.hpp"
#include "checkpoint/scratch.hpp"

using namespace canter;
namespace fs = std::filesystem;

namespace {

// converts to whatever a field is
struct Anything {
  template <class T>
  operator T() const;
};

template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires {
    T{(static_cast<void>(I), Anything{})...};
  };
}

// fields of an aggregate: the most initialisers that it takes
template <class T, std::size_t N = 64>
constexpr std::size_t num_fields() {
  if constexpr (takes<T>(std::make_index_sequence<N>{}))
    return N;
  else
    return num_fields<T, N - 1>();
}

template <class T>
std::size_t num_visited() {
  return option_names<T>().size();
}

std::string written(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
  return path.string();
}

}  // namespace

TEST_CASE("every options struct lists all of its fields") {
  CHECK(num_fields<PoolOptions>() == num_visited<PoolOptions>());
  CHECK(num_fields<MlpPolicyOptions>() == num_visited<MlpPolicyOptions>());
  CHECK(num_fields<PpoOptions>() == num_visited<PpoOptions>());
  CHECK(num_fields<CheckpointOptions>() == num_visited<CheckpointOptions>());
  CHECK(num_fields<EvaluateOptions>() == num_visited<EvaluateOptions>());
  // these list those of their parts in the place of the parts
  const std::size_t ppo = num_visited<PpoOptions>(), checkpoint = num_visited<CheckpointOptions>();
  CHECK(num_fields<TrainerOptions>() == num_visited<TrainerOptions>() - ppo - checkpoint + 2);
  CHECK(num_fields<RunOptions>() == num_visited<RunOptions>() - num_visited<PoolOptions>() -
                                        num_visited<MlpPolicyOptions>() -
                                        num_visited<TrainerOptions>() + 3);
  // and a report all but its warning
  Report report;
  std::size_t numbers = 0;
  visit(report, [&](std::string_view, auto&) { ++numbers; });
  CHECK(num_fields<Report>() == numbers + 1);
}

TEST_CASE("options by flat name") {
  RunOptions run;
  set_option(run, "num_envs", std::int64_t{64});
  set_option(run, "learning_rate", 1e-3);
  set_option(run, "hidden", std::vector<std::int64_t>{256, 128});
  set_option(run, "seed", std::int64_t{9});
  set_option(run, "truncation", std::string("terminal"));
  CHECK(run.pool.num_envs == 64);
  CHECK(run.trainer.ppo.learning_rate == 1e-3f);
  CHECK(run.policy.hidden == std::vector<int>{256, 128});
  CHECK(run.pool.seed == 9);
  CHECK(run.trainer.seed == 9);
  CHECK(run.trainer.ppo.truncation == TruncationHandling::terminal);
  CHECK_THROWS_WITH_AS(set_option(run, "learning_rat", 1.0), doctest::Contains("\"learning_rate\""),
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(set_option(run, "num_envs", std::string("many")),
                       doctest::Contains("num_envs must be an integer"), InvalidArgument);

  // setting all that is listed gives the same run; no name is there twice
  RunOptions copy;
  for (const auto& [name, value] : option_values(run)) set_option(copy, name, value);
  CHECK(option_values(copy) == option_values(run));
  std::set<std::string> names;
  for (const auto& item : option_values(run)) CHECK(names.insert(item.first).second);
}

TEST_CASE("presets are the published settings") {
  CHECK(preset_names() == std::vector<std::string>{"cleanrl", "fast"});
  const RunOptions cheetah = preset("cleanrl", "HalfCheetah-v5");
  CHECK(cheetah.pool.num_envs == 1);
  CHECK(cheetah.trainer.ppo.horizon == 2048);
  CHECK(cheetah.trainer.ppo.num_epochs == 10);
  CHECK(cheetah.trainer.ppo.num_minibatches == 32);
  CHECK(cheetah.trainer.ppo.learning_rate == 3e-4f);
  CHECK(cheetah.trainer.ppo.truncation == TruncationHandling::terminal);
  CHECK(cheetah.trainer.ppo.adam_epsilon == 1e-5f);
  CHECK(cheetah.policy.normalize_observations);
  CHECK(cheetah.policy.normalize_rewards);
  const RunOptions cart = preset("cleanrl", "CartPole-v1");
  CHECK(cart.pool.num_envs == 4);
  CHECK(cart.trainer.ppo.horizon == 128);
  CHECK(cart.trainer.ppo.num_epochs == 4);
  CHECK(cart.trainer.ppo.num_minibatches == 4);
  CHECK(cart.trainer.ppo.learning_rate == 2.5e-4f);
  CHECK(cart.trainer.ppo.entropy_coefficient == 0.01f);
  CHECK_FALSE(cart.policy.normalize_observations);
  CHECK_FALSE(cart.policy.normalize_rewards);
  CHECK_THROWS_WITH_AS(preset("cleanr", "CartPole-v1"), doctest::Contains("\"cleanrl\""),
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(preset("fast", "CartPol-v1"), doctest::Contains("CartPole-v1"),
                       InvalidArgument);
}

TEST_CASE("config.toml gives back every option") {
  const Scratch scratch;
  const fs::path path = scratch.path() / "config.toml";
  RunOptions run = preset("fast", "CartPole-v1");
  run.pool.seed = 0xfedcba9876543210;
  run.pool.seeds = {1, 0xffffffffffffffff};
  run.policy.hidden = {};
  run.policy.log_std_init = -1;
  run.trainer.ppo.learning_rate = 1.2345678e-4f;
  run.trainer.ppo.gamma = 1;
  run.trainer.ppo.clip_reward = INFINITY;
  run.trainer.directory = "runs/a \"b\"\\c";
  run.trainer.save_interval_seconds = 0.1;
  save_config(path, run);
  const RunOptions loaded = load_config(path);
  CHECK(option_values(loaded) == option_values(run));
  CHECK(loaded.trainer.seed == run.trainer.seed);
  CHECK(loaded.pool.seed == 0xfedcba9876543210);
}

TEST_CASE("a configuration written by hand may be short, and errors have file and line") {
  const Scratch scratch;
  const fs::path path = scratch.path() / "mine.toml";
  written(path, "env = \"CartPole-v1\"\npreset = \"cleanrl\"\n[ppo]\nlearning_rate = 1e-3\n");
  const RunOptions run = load_config(path);
  CHECK(run.trainer.ppo.learning_rate == 1e-3f);
  CHECK(run.trainer.ppo.horizon == 128);

  const auto complaint = [&](const std::string& text) {
    try {
      load_config(written(path, text));
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string file = path.string();
  CHECK(complaint("\n[ppo]\nhorizn = 3\n") ==
        file + ":3: unknown option \"horizn\"; did you mean \"horizon\"?");
  CHECK(complaint("[ppo]\nhorizon = \"x\"\n").starts_with(file + ":2: horizon must be"));
  CHECK(complaint("[poo]\n").starts_with(file + ":1: unknown section \"poo\""));
  CHECK(complaint("[ppo]\nhorizon = [[1]]\n").starts_with(file + ":2: "));
  CHECK(complaint("a = \n").starts_with(file + ":1: "));
  CHECK_THROWS_WITH_AS(load_config(scratch.path() / "none"), doctest::Contains("no such file"),
                       InvalidArgument);
}

TEST_CASE("a run that was saved keeps its configuration") {
  const Scratch scratch;
  const std::string directory = scratch.path() / "run";
  const OptionValues first{{"directory", directory},          {"num_envs", std::int64_t{2}},
                           {"horizon", std::int64_t{16}},     {"learning_rate", 1e-3},
                           {"total_steps", std::int64_t{64}}, {"num_threads", std::int64_t{1}}};
  {
    auto trainer = make_trainer(resolve_run("CartPole-v1", "fast", first));
    CHECK(trainer->train());
  }
  // nothing said: everything as it was
  RunOptions again = resolve_run("CartPole-v1", "", {{"directory", directory}});
  CHECK(again.trainer.ppo.learning_rate == 1e-3f);
  CHECK(again.trainer.ppo.horizon == 16);
  CHECK(again.preset == "fast");
  // these may change
  again = resolve_run("CartPole-v1", "fast",
                      {{"directory", directory},
                       {"total_steps", std::int64_t{128}},
                       {"num_threads", std::int64_t{2}},
                       {"learning_rate", 1e-3}});
  CHECK(again.trainer.total_steps == 128);
  auto trainer = make_trainer(again);
  CHECK(trainer->resume());
  CHECK(trainer->env_steps() == 64);
  CHECK(trainer->train());
  CHECK(trainer->env_steps() == 128);
  CHECK(load_config(fs::path(directory) / "config.toml").trainer.total_steps == 128);
  // others may not
  CHECK_THROWS_WITH_AS(
      resolve_run("CartPole-v1", "", {{"directory", directory}, {"learning_rate", 2e-3}}),
      doctest::Contains("learning_rate is 0.002, but 0.001 in the saved run"), InvalidArgument);
  CHECK_THROWS_WITH_AS(resolve_run("CartPole-v1", "cleanrl", {{"directory", directory}}),
                       doctest::Contains("preset is \"cleanrl\""), InvalidArgument);
  CHECK_THROWS_WITH_AS(resolve_run("Pendulum-v1", "", {{"directory", directory}}),
                       doctest::Contains("env is \"Pendulum-v1\""), InvalidArgument);
}

TEST_CASE("a run without a directory gets one by its name and seed") {
  CHECK(resolve_run("CartPole-v1", "", {{"seed", std::int64_t{3}}}).trainer.directory ==
        "runs/CartPole-v1-seed3");
}
