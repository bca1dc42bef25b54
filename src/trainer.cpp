#include "canter/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <utility>

#include "canter/base/error.hpp"
#include "checkpoint/durable_file.hpp"
#include "checkpoint/step_directory.hpp"
#include "config.hpp"
#include "trainer_impl.hpp"

namespace canter {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

template <class T>
const std::shared_ptr<T>& required(const std::shared_ptr<T>& part, const char* name) {
  if (!part) throw InvalidArgument(std::string(name) + " must not be null");
  return part;
}

// everything that can be refused, before anything is changed
void check_parts(const EnvPool& pool, const Policy& policy, const Communicator& communicator,
                 const TrainerOptions& options) {
  const Spec &have = pool.spec(), &want = policy.spec();
  if (have.observation_size != want.observation_size)
    throw InvalidArgument("the policy expects observations of " +
                          std::to_string(want.observation_size) + " numbers, the pool has " +
                          std::to_string(have.observation_size));
  if (have.is_discrete() != want.is_discrete() || have.action_size() != want.action_size())
    throw InvalidArgument("the policy's actions are not those of the pool");
  if (have.is_discrete() &&
      std::get<Discrete>(have.action).count != std::get<Discrete>(want.action).count)
    throw InvalidArgument("the policy has another number of actions than the pool");
  if (policy.state_size() > 0)
    throw InvalidArgument("recurrent policies cannot be trained by this trainer");
  if (options.total_steps < 0)
    throw InvalidArgument("total_steps must be >= 0, got " + std::to_string(options.total_steps));
  if (std::isnan(options.save_interval_seconds))
    throw InvalidArgument("save_interval_seconds must be a number, got nan");
  if (const std::string reason = pool.refuses_save(); !reason.empty() && !options.directory.empty())
    throw InvalidArgument("the pool cannot be saved: " + reason);
  const std::int64_t first = std::int64_t{communicator.rank()} * pool.num_envs();
  if (communicator.size() > 1 && pool.options().env_offset != first)
    throw InvalidArgument("env_offset of rank " + std::to_string(communicator.rank()) +
                          " must be " + std::to_string(first) + " (rank * num_envs), got " +
                          std::to_string(pool.options().env_offset));
}

}  // namespace

Trainer::Impl::Impl(const std::shared_ptr<EnvPool>& its_pool,
                    const std::shared_ptr<Policy>& its_policy,
                    const std::shared_ptr<Communicator>& its_communicator,
                    TrainerOptions its_options, std::string its_preset)
    : pool(required(its_pool, "pool")),
      policy(required(its_policy, "policy")),
      communicator(required(its_communicator, "communicator")),
      options((check_parts(*its_pool, *its_policy, *its_communicator, its_options),
               std::move(its_options))),
      preset(std::move(its_preset)),
      directory(options.directory.empty() ? std::filesystem::path()
                                          : std::filesystem::absolute(options.directory)),
      rollout(options.ppo.horizon, pool->num_envs(), pool->spec(),
              options.ppo.recompute_advantages),
      ppo(options.ppo, options.total_steps, options.seed, *policy) {
  const auto n = static_cast<std::size_t>(pool->num_envs());
  diverged.resize(n);
  episode_returns.resize(n);
  episode_lengths.resize(n);
  exchange.resize(2 + 2 * detail::EpisodeWindow::kSize);
  exchanged.resize(exchange.size() * static_cast<std::size_t>(communicator->size()));
  for (const ParameterView& view : policy->parameter_views())
    if (view.name == "log_std") log_std_offset = view.offset, log_std_size = view.size;

  if (has_directory() && is_root())
    store = std::make_unique<CheckpointStore>(directory / "checkpoints", options.checkpoint);
  // episode 0 of every environment, whatever the pool was used for before
  const StepView first{.observations = rollout.row(rollout.observations, rollout.horizon(),
                                                   pool->spec().observation_size),
                       .rewards = rollout.row(rollout.rewards, 0),
                       .terminated = rollout.row(rollout.terminated, 0),
                       .truncated = rollout.row(rollout.truncated, 0)};
  if (const std::vector<std::uint64_t>& seeds = pool->options().seeds; seeds.empty()) {
    pool->reset(pool->options().seed, first);
  } else {
    pool->reset(std::span(seeds), first);
  }
  hold = std::make_unique<EnvPool::Hold>(*pool);
  policy->set_threads(pool->threads());
  ppo.set_threads(pool->threads());
  Ppo::synchronize(*policy, *communicator);
}

// opens the files of a run; a run that is there already must be resumed, never written over
void Trainer::Impl::begin() {
  if (begun) return;
  if (store) {
    if (!resumed && !store->steps().empty())
      throw Error("'" + options.directory +
                  "' holds checkpoints of an earlier run: call resume() first, or choose another "
                  "directory");
    // temporaries of a process that was killed while it wrote
    std::error_code ignored;
    for (const std::filesystem::path& entry : detail::entries_of(directory))
      if (entry.filename().string().starts_with(detail::kTemporaryPrefix))
        std::filesystem::remove(entry, ignored);
    save_config(directory / "config.toml", described());
    metrics.open(directory / "metrics.jsonl", state.metrics_size);
    last_save = Clock::now();
  }
  begun = true;
}

void Trainer::Impl::step(int t) {
  const int observation_size = pool->spec().observation_size;
  const int action_size = pool->spec().action_size();
  const Clock::time_point start = Clock::now();
  policy->act(
      {.observations = rollout.row(rollout.observations, t, observation_size),
       .seed = options.seed,
       .first_id = static_cast<std::uint32_t>(pool->options().env_offset),
       .step = static_cast<std::uint32_t>(state.report.iteration * options.ppo.horizon + t)},
      {.env_actions = rollout.env_actions,
       .actions = rollout.row(rollout.actions, t, action_size),
       .log_probs = rollout.row(rollout.log_probs, t),
       .values = rollout.row(rollout.values, t)});
  const Clock::time_point acted = Clock::now();
  hold->step(rollout.env_actions,
             {.observations = rollout.row(rollout.observations, t + 1, observation_size),
              .rewards = rollout.row(rollout.rewards, t),
              .terminated = rollout.row(rollout.terminated, t),
              .truncated = rollout.row(rollout.truncated, t),
              .final_observations = rollout.final_observations,
              .diverged = diverged,
              .episode_returns = episode_returns,
              .episode_lengths = episode_lengths});
  const Clock::time_point stepped = Clock::now();
  if (options.ppo.truncation == TruncationHandling::bootstrap)
    rollout.evaluate_final_observations(t, *policy);
  physics_seconds += seconds_between(acted, stepped);
  inference_seconds += seconds_between(start, acted) + seconds_between(stepped, Clock::now());
}

// after step t: rows that ended, in the order of environments
void Trainer::Impl::count_episodes(int t) {
  const auto terminated = rollout.row(rollout.terminated, t);
  const auto truncated = rollout.row(rollout.truncated, t);
  for (std::size_t i = 0; i < terminated.size(); ++i) {
    fresh_diverged += diverged[i];
    if (terminated[i] || truncated[i]) fresh.add(episode_returns[i], episode_lengths[i]);
  }
}

void Trainer::Impl::collect() {
  rollout.start();
  for (int t = 0; t < rollout.horizon(); ++t) {
    step(t);
    count_episodes(t);
  }
  const Clock::time_point start = Clock::now();
  policy->value(rollout.row(rollout.observations, rollout.horizon(), pool->spec().observation_size),
                rollout.row(rollout.values, rollout.horizon()));
  inference_seconds += seconds_between(start, Clock::now());
}

// every rank appends the same episodes in the same order
void Trainer::Impl::exchange_episodes() {
  constexpr std::size_t size = detail::EpisodeWindow::kSize;
  exchange[0] = static_cast<double>(fresh.count());
  exchange[1] = static_cast<double>(fresh_diverged);
  for (std::size_t k = 0; k < fresh.size(); ++k) {
    exchange[2 + k] = static_cast<double>(fresh.return_of(k));
    exchange[2 + size + k] = static_cast<double>(fresh.length_of(k));
  }
  communicator->all_gather(std::as_bytes(std::span(exchange)),
                           std::as_writable_bytes(std::span(exchanged)));
  for (std::size_t first = 0; first < exchanged.size(); first += exchange.size()) {
    const double* of_rank = exchanged.data() + first;
    state.report.episodes += static_cast<std::int64_t>(of_rank[0]);
    state.report.diverged += static_cast<std::int64_t>(of_rank[1]);
    const auto held = std::min(static_cast<std::size_t>(of_rank[0]), size);
    for (std::size_t k = 0; k < held; ++k)
      window.add(static_cast<float>(of_rank[2 + k]),
                 static_cast<std::int32_t>(of_rank[2 + size + k]));
  }
}

double Trainer::Impl::mean_std() const {
  if (log_std_size == 0) return 0;
  double sum = 0;
  for (const float log_std : policy->parameters().subspan(log_std_offset, log_std_size))
    sum += std::exp(static_cast<double>(std::clamp(log_std, kMinLogStd, kMaxLogStd)));
  return sum / static_cast<double>(log_std_size);
}

void Trainer::Impl::fill_report(const UpdateReport& update, double total_seconds) {
  Report& report = state.report;
  const std::int64_t steps = std::int64_t{rollout.num_samples()} * communicator->size();
  ++report.iteration;
  report.env_steps += steps;
  const detail::EpisodeWindow::Summary summary = window.summary();
  report.episode_return_mean = summary.return_mean;
  report.episode_return_std = summary.return_std;
  report.episode_length_mean = summary.length_mean;
  report.steps_per_second = static_cast<double>(steps) / total_seconds;
  report.policy_loss = update.policy_loss;
  report.value_loss = update.value_loss;
  report.entropy = update.entropy;
  report.approx_kl = update.approx_kl;
  report.clip_fraction = update.clip_fraction;
  report.explained_variance = update.explained_variance;
  report.gradient_norm = update.gradient_norm;
  report.learning_rate = update.learning_rate;
  report.std = mean_std();
  report.skipped_updates += update.skipped_updates;
  report.time_physics = physics_seconds;
  report.time_inference = inference_seconds;
  report.time_update = update_seconds;
  report.time_other = total_seconds - physics_seconds - inference_seconds - update_seconds;
  state.seconds += total_seconds;
  report.seconds = state.seconds;
  if (!update.non_finite.empty()) warning += "not finite: " + update.non_finite + "; ";
}

// true on every rank if it is true on one
bool Trainer::Impl::agree(bool vote) {
  if (communicator->size() == 1) return vote;
  double votes = vote;
  communicator->all_reduce(std::span(&votes, 1));
  return votes > 0;
}

Trainer::Trainer(const std::shared_ptr<EnvPool>& pool, const std::shared_ptr<Policy>& policy,
                 const std::shared_ptr<Communicator>& communicator, TrainerOptions options,
                 std::string preset)
    : impl_(std::make_unique<Impl>(pool, policy, communicator, std::move(options),
                                   std::move(preset))) {}

Trainer::~Trainer() = default;

Report Trainer::iterate() {
  Impl& self = *impl_;
  if (self.failed)
    throw Error("an iteration failed before: call resume() to go back to the last checkpoint");
  self.begin();
  const Clock::time_point start = Clock::now();
  self.fresh.clear();
  self.fresh_diverged = 0;
  self.physics_seconds = self.inference_seconds = self.update_seconds = 0;
  self.failed = true;  // until the boundary is reached
  try {
    self.collect();
    const Clock::time_point collected = Clock::now();
    const UpdateReport update = self.ppo.update(self.rollout, *self.policy, *self.communicator,
                                                self.state.report.env_steps);
    self.ppo.update_moments(self.rollout, *self.policy, *self.communicator);
    self.update_seconds = seconds_between(collected, Clock::now());
    self.exchange_episodes();
    self.fill_report(update, seconds_between(start, Clock::now()));
    self.failed = false;
  } catch (...) {
    // other ranks must not wait for this one
    if (self.communicator->size() > 1) self.communicator->abort();
    throw;
  }
  if (self.metrics.is_open() && !self.metrics.append(self.state.report))
    self.warning += "metrics.jsonl could not be written; ";
  self.save_in_time();
  Report report = self.state.report;
  report.warning.swap(self.warning);
  return report;
}

bool Trainer::train(const std::function<bool(const Report&)>& callback, double max_seconds) {
  Impl& self = *impl_;
  const Clock::time_point start = Clock::now();
  const auto is_complete = [&] {
    return self.options.total_steps > 0 && env_steps() >= self.options.total_steps;
  };
  const auto is_late = [&] {
    return max_seconds > 0 && seconds_between(start, Clock::now()) >= max_seconds;
  };
  std::exception_ptr error;
  bool go_on = true;
  while (!is_complete() && !self.agree(!go_on || stop_requested() || is_late())) {
    const Report report = iterate();
    try {
      go_on = !callback || callback(report);
    } catch (...) {
      error = std::current_exception();
      go_on = false;
    }
  }
  if (self.has_directory()) {
    // the last iteration may have begun a save of its own
    if (self.saved_iteration == iteration()) {
      self.finish_save({});
    } else {
      save();
    }
  }
  if (error) std::rethrow_exception(error);
  return is_complete();
}

void Trainer::request_stop() noexcept {
  impl_->stop.store(true);
}
void Trainer::clear_stop() noexcept {
  impl_->stop.store(false);
}
bool Trainer::stop_requested() const noexcept {
  return impl_->stop.load();
}
std::int64_t Trainer::env_steps() const noexcept {
  return impl_->state.report.env_steps;
}
std::int64_t Trainer::iteration() const noexcept {
  return impl_->state.report.iteration;
}
const TrainerOptions& Trainer::options() const noexcept {
  return impl_->options;
}
EnvPool& Trainer::pool() noexcept {
  return *impl_->pool;
}
Policy& Trainer::policy() noexcept {
  return *impl_->policy;
}
Communicator& Trainer::communicator() noexcept {
  return *impl_->communicator;
}
const CheckpointStore* Trainer::checkpoints() const noexcept {
  return impl_->store.get();
}

}  // namespace canter
