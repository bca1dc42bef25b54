#pragma once
// Rollout: the time-major slab that pool and policy write and the update reads.

#include <cstdint>
#include <span>
#include <vector>

#include "canter/base/spec.hpp"

namespace canter {

/// `horizon` steps of `num_envs` environments. Row t of an array is [num_envs, ...]; observations
/// have horizon + 1 rows, and the last one becomes row 0 of the next rollout.
class Rollout {
 public:
  Rollout(int horizon, int num_envs, const Spec& spec);

  int horizon() const noexcept { return horizon_; }
  int num_envs() const noexcept { return num_envs_; }
  int num_samples() const noexcept { return horizon_ * num_envs_; }

  /// Row t of an array with `width` numbers per environment.
  template <class T>
  std::span<T> row(std::vector<T>& array, int t, int width = 1) const {
    const auto size = static_cast<std::size_t>(num_envs_) * static_cast<std::size_t>(width);
    return std::span<T>(array).subspan(static_cast<std::size_t>(t) * size, size);
  }

  std::vector<float> observations;          ///< raw float[horizon + 1, num_envs, observation_size]
  std::vector<float> actions;               ///< raw sample float[horizon, num_envs, action_size]
  std::vector<float> env_actions;           ///< clipped float[num_envs, action_size], current step only
  std::vector<float> log_probs;             ///< float[horizon, num_envs]
  std::vector<float> values;                ///< float[horizon + 1, num_envs]; last row: V(last observation)
  std::vector<float> rewards;               ///< as the pool gave them, float[horizon, num_envs]
  std::vector<std::uint8_t> terminated;     ///< 0/1 [horizon, num_envs]: the step ended the episode
  std::vector<std::uint8_t> truncated;      ///< 0/1 [horizon, num_envs]
  std::vector<float> final_observations;    ///< float[num_envs, observation_size], current step only
  std::vector<float> final_values;          ///< V(final observation) float[horizon, num_envs], where truncated
  std::vector<float> advantages;            ///< float[horizon, num_envs]
  std::vector<float> returns;               ///< advantages + values

 private:
  int horizon_, num_envs_;
};

}  // namespace canter
