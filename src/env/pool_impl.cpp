// The calls of EnvPool without the question who calls: checks at the boundary, then all shards.

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/memory.hpp"
#include "canter/base/error.hpp"
#include "env/pool_impl.hpp"

namespace canter {
namespace {

void require(bool condition, const std::string& message) {
  if (!condition) throw InvalidArgument(message);
}

void check(const PoolOptions& o) {
  require(o.num_envs >= 1, "num_envs must be >= 1, got " + std::to_string(o.num_envs));
  require(o.num_shards >= 0, "num_shards must be >= 0, got " + std::to_string(o.num_shards));
  require(o.max_episode_steps >= -1,
          "max_episode_steps must be >= -1, got " + std::to_string(o.max_episode_steps));
  require(o.seeds.empty() || o.seeds.size() == static_cast<std::size_t>(o.num_envs),
          "seeds must be empty or have num_envs = " + std::to_string(o.num_envs) +
              " entries, got " + std::to_string(o.seeds.size()));
  // global ids are 32 bits of the random streams' counter
  require(o.env_offset >= 0 && o.env_offset <= (std::int64_t{1} << 32) - o.num_envs,
          "env_offset must be >= 0 and env_offset + num_envs <= 2^32, got " +
              std::to_string(o.env_offset));
}

}  // namespace

void check_size(const char* what, std::size_t got, std::size_t num_envs, std::size_t width) {
  if (got == num_envs * width) return;
  throw InvalidArgument(std::string(what) + " must have " + std::to_string(num_envs) + " x " +
                        std::to_string(width) + " = " + std::to_string(num_envs * width) +
                        " entries, got " + std::to_string(got));
}

EnvPool::Impl::Call::Call(const Impl& pool) : busy_(pool.busy) {
  if (busy_.exchange(true, std::memory_order_acquire))
    throw Error("pool '" + pool.name + "' is in use: another thread's call is still running");
}

EnvPool::Impl::Impl(std::string name_, Spec spec_, PoolOptions options_,
                    std::shared_ptr<Threads> threads_, const ShardFactory& factory)
    : name(std::move(name_)),
      spec(std::move(spec_)),
      options(std::move(options_)),
      threads(std::move(threads_)) {
  canter::check(spec);
  check(options);
  if (!threads) threads = make_threads(options.num_threads);
  options.num_threads = threads->size();
  if (options.max_episode_steps < 0) options.max_episode_steps = spec.max_episode_steps;
  // two per thread even out unequal shards; a single thread keeps one mjData warm
  if (options.num_shards == 0)
    options.num_shards = options.num_threads == 1 ? 1 : 2 * options.num_threads;
  options.num_shards = std::min(options.num_shards, options.num_envs);

  const auto n = static_cast<std::size_t>(options.num_envs);
  observation_size = static_cast<std::size_t>(spec.observation_size);
  action_size = static_cast<std::size_t>(spec.action_size());
  num_metrics = spec.metrics.size();
  const std::size_t row =
      sizeof(Rng) + sizeof(double) + sizeof(std::int32_t) + 2 + observation_size * sizeof(float);
  detail::check_memory("num_envs = " + std::to_string(n),
                       static_cast<double>(n) * static_cast<double>(row));
  rngs.resize(n);
  returns.resize(n);
  steps.resize(n);
  observations.resize(n * observation_size);
  diverged.resize(n);
  started.resize(n);
  seed_all();

  slices.resize(static_cast<std::size_t>(options.num_shards));
  const std::int64_t num_envs = options.num_envs;
  for (int k = 0; k < options.num_shards; ++k) {
    Slice& slice = slices[static_cast<std::size_t>(k)];
    slice.first = static_cast<int>(num_envs * k / options.num_shards);
    slice.count = static_cast<int>(num_envs * (k + 1) / options.num_shards) - slice.first;
    slice.shard = factory(slice.first, slice.count);
    slice.ids.reserve(static_cast<std::size_t>(slice.count));
  }
}

void EnvPool::Impl::seed_all() {
  for (std::size_t i = 0; i < rngs.size(); ++i) {
    const bool own = !options.seeds.empty();
    const std::int64_t id = own ? 0 : options.env_offset + static_cast<std::int64_t>(i);
    rngs[i] = Rng(own ? options.seeds[i] : options.seed, Stream::environment,
                  static_cast<std::uint32_t>(id), 0);
  }
  std::ranges::fill(started, std::uint8_t{0});
  num_started = 0;
}

EnvPool::Impl::Slice& EnvPool::Impl::slice_of(int i) {
  auto after = std::ranges::upper_bound(slices, i, {}, &Slice::first);
  return *std::prev(after);
}

void EnvPool::Impl::check_free() const {
  if (held) throw Error("pool '" + name + "' is held by " + holder);
}

void EnvPool::Impl::check_sound() const {
  if (faulted) throw Error("pool '" + name + "' failed in an earlier call: reset or load it first");
}

int EnvPool::Impl::check_index(int i) const {
  if (i >= 0 && i < options.num_envs) return i;
  throw InvalidArgument("environment index must be in [0, " + std::to_string(options.num_envs) +
                        "), got " + std::to_string(i));
}

void EnvPool::Impl::check_view(const StepView& out) const {
  const auto n = static_cast<std::size_t>(options.num_envs);
  check_size("observations", out.observations.size(), n, observation_size);
  check_size("rewards", out.rewards.size(), n, 1);
  check_size("terminated", out.terminated.size(), n, 1);
  check_size("truncated", out.truncated.size(), n, 1);
  if (!out.final_observations.empty())
    check_size("final_observations", out.final_observations.size(), n, observation_size);
  if (!out.diverged.empty()) check_size("diverged", out.diverged.size(), n, 1);
  if (!out.episode_returns.empty()) check_size("episode_returns", out.episode_returns.size(), n, 1);
  if (!out.episode_lengths.empty()) check_size("episode_lengths", out.episode_lengths.size(), n, 1);
  if (!out.metrics.empty()) check_size("metrics", out.metrics.size(), n, num_metrics);
}

void EnvPool::Impl::check_actions(std::span<const float> actions) const {
  check_size("actions", actions.size(), static_cast<std::size_t>(options.num_envs), action_size);
  const Discrete* discrete = std::get_if<Discrete>(&spec.action);
  if (!discrete) return;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const float a = actions[i];
    if (a >= 0 && a < static_cast<float>(discrete->count) && a == std::floor(a)) continue;
    throw InvalidArgument("action of environment " + std::to_string(i) + " must be one of 0 .. " +
                          std::to_string(discrete->count - 1) + ", got " + std::to_string(a));
  }
}

void EnvPool::Impl::throw_faults() {
  for (const Slice& slice : slices) {
    if (slice.faults.empty()) continue;
    faulted = true;
    const Fault& fault = *std::ranges::min_element(slice.faults, {}, &Fault::row);
    throw EnvError(slice.first + fault.row, fault.message);
  }
}

void EnvPool::Impl::step_all(std::span<const float> actions, const StepView& out) {
  check_actions(actions);
  check_view(out);
  check_sound();
  if (num_started < options.num_envs) throw InvalidArgument("step: reset the pool first");
  // a shard that throws leaves rows half done
  faulted = true;
  threads->parallel_for(static_cast<int>(slices.size()), [&](int k) {
    step_rows(slices[static_cast<std::size_t>(k)], actions, out);
  });
  faulted = false;
  num_steps += 1;
  throw_faults();
}

void EnvPool::Impl::reset_masked(std::span<const std::uint8_t> mask, const StepView& out) {
  check_view(out);
  const auto n = static_cast<std::size_t>(options.num_envs);
  check_size("mask", mask.size(), n, 1);
  const bool all = std::ranges::find(mask, 0) == mask.end();
  if (!all) check_sound();
  for (std::size_t i = 0; i < n; ++i) {
    if (!mask[i]) continue;
    num_started += started[i] ? 0 : 1;
    begin_episode(i);
    out.rewards[i] = 0;
    out.terminated[i] = out.truncated[i] = 0;
    if (!out.diverged.empty()) out.diverged[i] = 0;
    if (!out.metrics.empty())
      std::ranges::fill(out.metrics.subspan(i * num_metrics, num_metrics), 0.0f);
  }
  faulted = true;
  threads->parallel_for(static_cast<int>(slices.size()), [&](int k) {
    Slice& slice = slices[static_cast<std::size_t>(k)];
    slice.faults.clear();
    slice.ids.clear();
    for (int j = 0; j < slice.count; ++j)
      if (mask[static_cast<std::size_t>(slice.first + j)]) slice.ids.push_back(j);
    if (!slice.ids.empty()) reset_rows(slice, rows_of(slice, out));
  });
  faulted = false;
  throw_faults();
}

void EnvPool::Impl::reset_all(const StepView& out) {
  const std::vector<std::uint8_t> mask(static_cast<std::size_t>(options.num_envs), 1);
  reset_masked(mask, out);
}

void EnvPool::Impl::reset_seeded(std::uint64_t seed, const StepView& out) {
  check_view(out);
  options.seed = seed;
  options.seeds.clear();
  seed_all();
  reset_all(out);
}

}  // namespace canter
