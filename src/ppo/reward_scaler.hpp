#pragma once
// Rewards divided by the standard deviation of the discounted return (detail 11 of "The 37
// Implementation Details of PPO"; Gymnasium's NormalizeReward before it lost the reset).

#include <cstdint>
#include <span>
#include <vector>

#include "canter/ppo/rollout.hpp"
#include "canter/ppo/running_moments.hpp"
#include "canter/sync/communicator.hpp"

namespace canter::detail {

/// Keeps one running return per environment: R <- gamma R + r, 0 after an end.
class RewardScaler {
 public:
  /// Runs the returns through the rollout, merges their moments over all ranks into `moments` and
  /// writes the rewards scaled by them, clipped to +-clip (<= 0: not clipped). One collective.
  void scale(const Rollout& rollout, RunningMoments& moments, float gamma, float clip,
             Communicator& communicator, std::span<float> scaled);

  /// One per environment; empty before the first rollout.
  std::vector<double>& discounted_returns() noexcept { return discounted_returns_; }
  const std::vector<double>& discounted_returns() const noexcept { return discounted_returns_; }

 private:
  std::vector<double> discounted_returns_;
  RunningMoments delta_{1};
  std::vector<double> gathered_;
};

/// Merges every rank's `delta` into `moments` in rank order. gathered: scratch, resized once.
void merge_ranks(RunningMoments& moments, RunningMoments& delta, Communicator& communicator,
                 std::vector<double>& gathered);

}  // namespace canter::detail
