#include "canter/env/step.hpp"

namespace canter {

StepBuffers::StepBuffers(int num_envs, const Spec& spec) {
  const auto n = static_cast<std::size_t>(num_envs);
  const auto width = static_cast<std::size_t>(spec.observation_size);
  observations.resize(n * width);
  rewards.resize(n);
  terminated.resize(n);
  truncated.resize(n);
  final_observations.resize(n * width);
  diverged.resize(n);
  episode_returns.resize(n);
  episode_lengths.resize(n);
  metrics.resize(n * spec.metrics.size());
}

StepView StepBuffers::view() {
  return {.observations = observations,
          .rewards = rewards,
          .terminated = terminated,
          .truncated = truncated,
          .final_observations = final_observations,
          .diverged = diverged,
          .episode_returns = episode_returns,
          .episode_lengths = episode_lengths,
          .metrics = metrics};
}

}  // namespace canter
