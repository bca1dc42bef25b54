#pragma once
// The memory that one pool step writes: views of it (StepView) and an owner (StepBuffers).

#include <cstdint>
#include <span>
#include <vector>

#include "canter/base/spec.hpp"

namespace canter {

/// Caller-owned memory that EnvPool::step and reset write. All rows are indexed by environment.
/// The first four spans are required, the others may be empty (then they are not written).
struct StepView {
  /// float[num_envs, observation_size]; of the new episode where one ended
  std::span<float> observations;
  std::span<float> rewards;            ///< float[num_envs]
  std::span<std::uint8_t> terminated;  ///< 0/1 [num_envs]: the task ended the episode
  std::span<std::uint8_t> truncated;   ///< 0/1 [num_envs]: the time limit did; independent of it
  /// float[num_envs, observation_size]; the last one of an episode, written only in rows that ended
  std::span<float> final_observations{};
  std::span<std::uint8_t> diverged{};  ///< 0/1 [num_envs]: blew up (terminated is set too)
  /// float[num_envs]; sum of rewards (summed in double), written only in rows that ended
  std::span<float> episode_returns{};
  std::span<std::int32_t> episode_lengths{};  ///< steps [num_envs], written only in rows that ended
  std::span<float> metrics{};  ///< float[num_envs, num_metrics]; what the task's `measure` fills
};

/// Owns memory for one step of a pool.
struct StepBuffers {
  StepBuffers(int num_envs, const Spec& spec);

  StepView view();

  std::vector<float> observations, rewards;
  std::vector<std::uint8_t> terminated, truncated;
  std::vector<float> final_observations;
  std::vector<std::uint8_t> diverged;
  std::vector<float> episode_returns;
  std::vector<std::int32_t> episode_lengths;
  std::vector<float> metrics;
};

}  // namespace canter
