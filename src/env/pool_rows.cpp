// What happens to the rows of one shard in a step: physics, endings, new episodes. Runs in the
// shard's thread and touches no other rows; allocates nothing, locks nothing, throws nothing.

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "env/pool_impl.hpp"

namespace canter {
namespace {

// by the exponent bits, so that the compiler may vectorise it
bool all_finite(std::span<const float> numbers) noexcept {
  constexpr std::uint32_t kExponent = 0x7f800000u;
  std::uint32_t bad = 0;
  for (const float x : numbers)
    bad |= (std::bit_cast<std::uint32_t>(x) & kExponent) == kExponent ? 1u : 0u;
  return bad == 0;
}

void copy(std::span<const float> from, std::span<float> to) noexcept {
  std::memmove(to.data(), from.data(), from.size_bytes());
}

bool has_fault(const Faults& faults, std::size_t first, int row) noexcept {
  for (std::size_t k = first; k < faults.size(); ++k)
    if (faults[k].row == row) return true;
  return false;
}

template <class T>
std::span<T> part(std::span<T> array, int first, int count, std::size_t width) {
  if (array.empty()) return {};
  return array.subspan(static_cast<std::size_t>(first) * width,
                       static_cast<std::size_t>(count) * width);
}

}  // namespace

ShardRows EnvPool::Impl::rows_of(const Slice& slice, const StepView& out) {
  const int first = slice.first, count = slice.count;
  return {.actions = {},
          .rngs = part(std::span<Rng>(rngs), first, count, 1),
          .observations = part(out.observations, first, count, observation_size),
          .rewards = part(out.rewards, first, count, 1),
          .terminated = part(out.terminated, first, count, 1),
          .diverged = part(std::span<std::uint8_t>(diverged), first, count, 1),
          .metrics = part(out.metrics, first, count, num_metrics)};
}

std::span<float> EnvPool::Impl::last_observation(std::size_t i) {
  return std::span<float>(observations).subspan(i * observation_size, observation_size);
}

void EnvPool::Impl::step_rows(Slice& slice, std::span<const float> actions, const StepView& out) {
  ShardRows rows = rows_of(slice, out);
  rows.actions = part(actions, slice.first, slice.count, action_size);
  slice.faults.clear();

  // a row whose action is not finite never reaches its simulator
  for (int j = 0; j < slice.count; ++j)
    rows.diverged[static_cast<std::size_t>(j)] =
        all_finite(part(rows.actions, j, 1, action_size)) ? 0 : 1;
  slice.shard->step(rows, slice.faults);

  finish_rows(slice, rows, out);
  if (!slice.ids.empty()) reset_rows(slice, rows);
}

void EnvPool::Impl::finish_rows(Slice& slice, const ShardRows& rows, const StepView& out) {
  slice.ids.clear();
  for (int row = 0; row < slice.count; ++row) {
    const auto j = static_cast<std::size_t>(row);
    const auto i = static_cast<std::size_t>(slice.first) + j;
    const std::span<float> observation =
        rows.observations.subspan(j * observation_size, observation_size);

    // divergence is an event, never a silent teleport; a row that failed stays where it was, since
    // the pool refuses to go on from here
    const bool failed = has_fault(slice.faults, 0, row);
    const bool bad = !failed && (rows.diverged[j] || !all_finite({&rows.rewards[j], 1}) ||
                                 !all_finite(observation));
    if (failed || bad) {
      copy(last_observation(i), observation);
      rows.rewards[j] = 0;
      rows.terminated[j] = rows.diverged[j] = bad;
      std::ranges::fill(part(rows.metrics, row, 1, num_metrics), 0.0f);
    }
    returns[i] += static_cast<double>(rows.rewards[j]);
    // without a limit an episode may outlast the counter
    if (!failed && steps[i] < std::numeric_limits<std::int32_t>::max()) steps[i] += 1;
    const bool truncated = options.max_episode_steps > 0 && steps[i] >= options.max_episode_steps;
    out.truncated[i] = truncated;
    if (!out.diverged.empty()) out.diverged[i] = bad;
    if (!rows.terminated[j] && !truncated) {
      copy(observation, last_observation(i));
      continue;
    }

    slice.ids.push_back(row);
    slice.episodes += 1;
    slice.terminated += rows.terminated[j] ? 1 : 0;
    slice.truncated += truncated ? 1 : 0;
    slice.diverged += bad ? 1 : 0;
    if (!out.final_observations.empty())
      copy(observation, part(out.final_observations, static_cast<int>(i), 1, observation_size));
    if (!out.episode_returns.empty()) out.episode_returns[i] = static_cast<float>(returns[i]);
    if (!out.episode_lengths.empty()) out.episode_lengths[i] = steps[i];
    begin_episode(i);
  }
}

void EnvPool::Impl::begin_episode(std::size_t i) {
  // the first episode of a stream is number 0
  rngs[i].start_episode(started[i] ? rngs[i].episode() + 1 : 0);
  started[i] = 1;
  returns[i] = 0;
  steps[i] = 0;
}

void EnvPool::Impl::reset_rows(Slice& slice, const ShardRows& rows) {
  const std::size_t num_faults = slice.faults.size();
  slice.shard->reset(slice.ids, rows, slice.faults);
  for (const int row : slice.ids) finish_reset(slice, num_faults, row, rows);
}

void EnvPool::Impl::restart_row(Slice& slice, int row, std::span<const double> qpos,
                                std::span<const double> qvel) {
  const auto i = static_cast<std::size_t>(slice.first + row);
  num_started += started[i] ? 0 : 1;
  begin_episode(i);
  slice.faults.clear();
  StepView view;
  view.observations = observations;
  const ShardRows rows = rows_of(slice, view);
  slice.shard->reset_to(row, qpos, qvel, rows, slice.faults);
  finish_reset(slice, 0, row, rows);
}

void EnvPool::Impl::finish_reset(Slice& slice, std::size_t num_faults, int row,
                                 const ShardRows& rows) {
  const std::span<float> observation = part(rows.observations, row, 1, observation_size);
  bool failed = has_fault(slice.faults, num_faults, row);
  if (!failed && !all_finite(observation)) {
    slice.faults.push_back({row, "the observation of a new episode is not finite"});
    failed = true;
  }
  if (failed) std::ranges::fill(observation, 0.0f);
  copy(observation, last_observation(static_cast<std::size_t>(slice.first + row)));
}

}  // namespace canter
