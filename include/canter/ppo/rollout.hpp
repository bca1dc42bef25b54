#pragma once
// Rollout: the time-major slab that pool and policy write and the update reads.
//
//   rollout.start();                       // the last observation becomes the first
//   for (int t = 0; t < rollout.horizon(); ++t) {
//     policy.act(...);                     // row t of observations -> actions, log_probs, values
//     pool.step(...);                      // env_actions -> row t of rewards and flags, row t + 1
//                                          // of observations, final_observations
//     rollout.evaluate_final_observations(t, policy);    // where a time limit ended an episode
//   }
//   policy.value(...);                     // last row of observations -> last row of values

#include <cstdint>
#include <span>
#include <vector>

#include "canter/base/spec.hpp"
#include "canter/ppo/advantages.hpp"
#include "canter/ppo/policy.hpp"

namespace canter {

/// `horizon` steps of `num_envs` environments. Row t of an array is [num_envs, ...]; observations
/// have horizon + 1 rows, and the last one becomes row 0 of the next rollout.
class Rollout {
 public:
  /// keep_final_observations: of all truncated rows, for PpoOptions::recompute_advantages.
  /// @throws InvalidArgument for sizes < 1 or more than 2^31 - 1 samples.
  Rollout(int horizon, int num_envs, const Spec& spec, bool keep_final_observations = false);

  int horizon() const noexcept { return horizon_; }
  int num_envs() const noexcept { return num_envs_; }
  int num_samples() const noexcept { return horizon_ * num_envs_; }
  int observation_size() const noexcept { return observation_size_; }
  bool keeps_final_observations() const noexcept { return keeps_final_observations_; }

  /// Row t of an array with `width` numbers per environment.
  template <class T>
  std::span<T> row(std::vector<T>& array, int t, int width = 1) const {
    const auto size = static_cast<std::size_t>(num_envs_) * static_cast<std::size_t>(width);
    return std::span<T>(array).subspan(static_cast<std::size_t>(t) * size, size);
  }

  /// Begins the next rollout: the last row of observations becomes row 0. Before the very first
  /// rollout write the reset's observations to row horizon (or to row 0, and do not call it).
  void start() noexcept;
  /// Writes final_values of step t, where it is truncated and not terminated, from
  /// final_observations: one call of policy.value on the gathered rows. Call it after every step.
  /// With keep_final_observations the gathered rows are kept; the store grows, rarely, to fit.
  void evaluate_final_observations(int t, Policy& policy);
  /// Writes all values and final_values again, under the policy as it is now.
  /// @throws InvalidArgument without keep_final_observations.
  void evaluate_again(Policy& policy);
  /// Views of the arrays for compute_advantages, with the rewards as the pool gave them.
  AdvantageInput advantage_input() const noexcept;
  /// Views of the samples, flattened to [num_samples, ...], for Policy::backward.
  SampleView samples() const noexcept;

  std::vector<float> observations;  ///< raw float[horizon + 1, num_envs, observation_size]
  std::vector<float> actions;       ///< raw sample float[horizon, num_envs, action_size]
  std::vector<float> env_actions;   ///< clipped float[num_envs, action_size], current step only
  std::vector<float> log_probs;     ///< float[horizon, num_envs]
  std::vector<float> values;        ///< float[horizon + 1, num_envs]; last row: V(last observation)
  std::vector<float> rewards;       ///< as the pool gave them, float[horizon, num_envs]
  std::vector<std::uint8_t> terminated;   ///< 0/1 [horizon, num_envs]: the step ended the episode
  std::vector<std::uint8_t> truncated;    ///< 0/1 [horizon, num_envs]
  std::vector<float> final_observations;  ///< float[num_envs, observation_size], current step only
  std::vector<float>
      final_values;  ///< V(final observation) float[horizon, num_envs], where truncated
  std::vector<float> advantages;  ///< float[horizon, num_envs]
  std::vector<float> returns;     ///< advantages + values

 private:
  int horizon_, num_envs_, observation_size_;
  bool keeps_final_observations_;
  std::vector<float> gathered_;                 // float[num_gathered, observation_size]
  std::vector<float> gathered_values_;          // float[num_gathered]
  std::vector<std::int32_t> gathered_samples_;  // where in final_values each belongs
};

}  // namespace canter
