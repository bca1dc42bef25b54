#pragma once
// Finds and names numbers that must not reach the parameters. Only the search for a fault's name
// allocates.

#include <cstdint>
#include <span>
#include <string>

#include "canter/ppo/policy.hpp"
#include "canter/ppo/rollout.hpp"

namespace canter::detail {

/// "rewards: inf at environment 7, step 3" for the first number of the rollout that is not finite
/// or beyond 1e18, or "" if all are usable.
std::string find_fault(const Rollout& rollout);

/// Whether the sums of a minibatch are all finite.
bool is_finite(std::span<const double> sums) noexcept;

/// "value_loss: inf in epoch 0, minibatch 3; largest |return - value| 3e+19 at environment 7, step
/// 3", or the first parameter whose gradient is not finite.
std::string name_fault(int epoch, int minibatch, const LossStatistics& sums, const Policy& policy,
                       std::span<const float> gradients, std::span<const std::int32_t> indices,
                       const Rollout& rollout);

}  // namespace canter::detail
