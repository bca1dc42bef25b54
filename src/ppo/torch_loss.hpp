#pragma once
// The PPO loss written in LibTorch's operations, for autograd. Part of torch_policy.cpp, apart from
// it because it is the mathematics and the rest is bookkeeping.

#include <torch/types.h>

#include <limits>
#include <tuple>

#include "canter/ppo/mlp_policy.hpp"
#include "canter/ppo/policy.hpp"

namespace canter::detail {

/// Rows of a minibatch, [B, ...].
struct TorchMinibatch {
  torch::Tensor observations;                            ///< raw float[B, observation_size]
  torch::Tensor actions;                                 ///< float[B, action_size]
  torch::Tensor masks;                                   ///< 0/1 u8[B, count], or undefined
  torch::Tensor log_probs, values, advantages, returns;  ///< float[B], at rollout time
};

/// log_std float[size] as every row sees it, float[rows, size]: clamped, but passing a gradient of
/// the whole minibatch that leads back from beyond a bound.
inline torch::Tensor log_std_rows(const torch::Tensor& log_std, std::int64_t rows) {
  const torch::Tensor now = log_std.detach();
  const torch::Tensor excess = now - now.clamp(kMinLogStd, kMaxLogStd);
  if (excess.eq(0).all().item<bool>()) return log_std.unsqueeze(0).expand({rows, log_std.size(0)});
  const torch::Tensor clamped = log_std - excess;
  // descent goes against the gradient: below the range only negative ones lead up
  clamped.register_hook([low = excess.lt(0), high = excess.gt(0)](const torch::Tensor& gradient) {
    return gradient.masked_fill((low & gradient.gt(0)) | (high & gradient.lt(0)), 0.0);
  });
  return clamped.unsqueeze(0).expand({rows, log_std.size(0)});
}

/// Log density [B] and entropy [B] of a diagonal Gaussian; log_std float[B, size].
inline std::tuple<torch::Tensor, torch::Tensor> gaussian_terms(const torch::Tensor& mean,
                                                               const torch::Tensor& log_std,
                                                               const torch::Tensor& actions) {
  constexpr double kHalfLogTwoPi = 0.91893853320467274178;
  const torch::Tensor z = (actions - mean) * torch::exp(-log_std);
  return {(-0.5 * z * z - log_std - kHalfLogTwoPi).sum(1),
          (log_std + (0.5 + kHalfLogTwoPi)).sum(1)};
}

/// Log probability [B] and entropy [B] of a categorical distribution; logits float[B, count].
inline std::tuple<torch::Tensor, torch::Tensor> categorical_terms(torch::Tensor logits,
                                                                  const torch::Tensor& actions,
                                                                  const torch::Tensor& masks) {
  if (masks.defined())
    logits = logits.masked_fill(masks.logical_not(), -std::numeric_limits<double>::infinity());
  const torch::Tensor log_softmax = torch::log_softmax(logits, 1);
  // an action that cannot happen adds nothing to the entropy
  const torch::Tensor finite = log_softmax.masked_fill(torch::isinf(log_softmax), 0.0);
  return {log_softmax.gather(1, actions.to(torch::kInt64)).squeeze(1),
          -(torch::exp(log_softmax) * finite).sum(1)};
}

/// Mean loss over the minibatch; writes the sums of its parts.
inline torch::Tensor ppo_loss(const TorchMinibatch& rows, const torch::Tensor& values,
                              const torch::Tensor& log_probs, const torch::Tensor& entropy,
                              const LossOptions& options, LossStatistics& sums) {
  torch::Tensor advantages = rows.advantages;
  if (options.normalize_advantages)
    advantages = (advantages - options.advantage_mean) * options.advantage_scale;

  // clipped surrogate (Schulman et al. 2017, equation 7)
  const torch::Tensor log_ratio = log_probs - rows.log_probs, ratio = torch::exp(log_ratio);
  const double epsilon = static_cast<double>(options.clip_range);
  const torch::Tensor policy_loss =
      torch::max(-advantages * ratio, -advantages * ratio.clamp(1 - epsilon, 1 + epsilon));

  // squared error of the value, the worse of plain and clipped
  torch::Tensor value_loss = 0.5 * (values - rows.returns).square();
  if (options.clip_range_value > 0) {
    const double range = static_cast<double>(options.clip_range_value);
    const torch::Tensor near = rows.values + (values - rows.values).clamp(-range, range);
    value_loss = torch::max(value_loss, 0.5 * (near - rows.returns).square());
  }

  const auto sum = [](const torch::Tensor& x) {
    return x.detach().to(torch::kFloat64).sum().item<double>();
  };
  sums = {.policy_loss = sum(policy_loss),
          .value_loss = sum(value_loss),
          .entropy = sum(entropy),
          .approx_kl = sum(ratio - 1 - log_ratio),
          .clip_fraction = sum((ratio - 1).abs() > epsilon),
          .num_samples = values.size(0)};
  return policy_loss.mean() + options.value_coefficient * value_loss.mean() -
         options.entropy_coefficient * entropy.mean();
}

}  // namespace canter::detail
