#include "canter/ppo/rollout.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "base/memory.hpp"
#include "canter/base/error.hpp"

namespace canter {

Rollout::Rollout(int horizon, int num_envs, const Spec& spec, bool keep_final_observations)
    : horizon_(horizon),
      num_envs_(num_envs),
      observation_size_(spec.observation_size),
      keeps_final_observations_(keep_final_observations) {
  if (horizon < 1) throw InvalidArgument("horizon must be >= 1, got " + std::to_string(horizon));
  if (num_envs < 1) throw InvalidArgument("num_envs must be >= 1, got " + std::to_string(num_envs));
  const std::int64_t num_rows = (std::int64_t{horizon} + 1) * num_envs;
  if (num_rows > std::numeric_limits<std::int32_t>::max())
    throw InvalidArgument("horizon * num_envs must be < 2^31, got " + std::to_string(horizon) +
                          " * " + std::to_string(num_envs));

  const auto envs = static_cast<std::size_t>(num_envs);
  const auto samples = static_cast<std::size_t>(num_samples());
  const auto observation_size = static_cast<std::size_t>(spec.observation_size);
  const auto action_size = static_cast<std::size_t>(spec.action_size());
  // besides observations and actions: seven floats and two flags
  const std::size_t row = (observation_size + action_size + 7) * sizeof(float) + 2;
  detail::check_memory(
      "horizon = " + std::to_string(horizon) + " of num_envs = " + std::to_string(num_envs),
      static_cast<double>(num_rows) * static_cast<double>(row));
  observations.resize((samples + envs) * observation_size);
  actions.resize(samples * action_size);
  env_actions.resize(envs * action_size);
  log_probs.resize(samples);
  values.resize(samples + envs);
  rewards.resize(samples);
  terminated.resize(samples);
  truncated.resize(samples);
  final_observations.resize(envs * observation_size);
  final_values.resize(samples);
  advantages.resize(samples);
  returns.resize(samples);

  // an environment reaches its time limit at most horizon / limit + 1 times
  std::size_t expected = envs;
  if (keep_final_observations && spec.max_episode_steps > 0)
    expected *= static_cast<std::size_t>(horizon / spec.max_episode_steps + 1);
  gathered_.reserve(expected * observation_size);
  gathered_values_.reserve(expected);
  gathered_samples_.reserve(expected);
}

void Rollout::start() noexcept {
  const std::span<const float> last = row(observations, horizon_, observation_size_);
  std::copy(last.begin(), last.end(), observations.begin());
}

AdvantageInput Rollout::advantage_input() const noexcept {
  return {.horizon = horizon_,
          .num_envs = num_envs_,
          .rewards = rewards,
          .values = values,
          .terminated = terminated,
          .truncated = truncated,
          .final_values = final_values};
}

SampleView Rollout::samples() const noexcept {
  // without the last row of observations and values
  const auto num_samples = rewards.size();
  return {
      .observations =
          std::span(observations).first(num_samples * static_cast<std::size_t>(observation_size_)),
      .actions = actions,
      .log_probs = log_probs,
      .values = std::span(values).first(num_samples),
      .advantages = advantages,
      .returns = returns};
}

void Rollout::evaluate_final_observations(int t, Policy& policy) {
  if (!keeps_final_observations_ || t == 0) {
    gathered_.clear();
    gathered_samples_.clear();
  }
  const std::size_t first_new = gathered_samples_.size();
  const auto size = static_cast<std::size_t>(observation_size_);
  for (int env = 0; env < num_envs_; ++env) {
    const int sample = t * num_envs_ + env;
    const auto s = static_cast<std::size_t>(sample);
    if (truncated[s] == 0 || terminated[s] != 0) continue;
    const float* observation = final_observations.data() + static_cast<std::size_t>(env) * size;
    gathered_.insert(gathered_.end(), observation, observation + size);
    gathered_samples_.push_back(sample);
  }
  const std::size_t num_gathered = gathered_samples_.size();
  if (num_gathered == first_new) return;

  gathered_values_.resize(num_gathered);
  policy.value(std::span(gathered_).subspan(first_new * size),
               std::span(gathered_values_).subspan(first_new));
  for (std::size_t i = first_new; i < num_gathered; ++i)
    final_values[static_cast<std::size_t>(gathered_samples_[i])] = gathered_values_[i];
}

void Rollout::evaluate_again(Policy& policy) {
  if (!keeps_final_observations_)
    throw InvalidArgument("evaluate_again needs a rollout made with keep_final_observations");
  policy.value(observations, values);
  const std::size_t num_gathered = gathered_samples_.size();
  if (num_gathered == 0) return;
  gathered_values_.resize(num_gathered);
  policy.value(gathered_, gathered_values_);
  for (std::size_t i = 0; i < num_gathered; ++i)
    final_values[static_cast<std::size_t>(gathered_samples_[i])] = gathered_values_[i];
}

}  // namespace canter
