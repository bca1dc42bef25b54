#include "distribution.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "canter/ppo/mlp_policy.hpp"
#include "kernels.hpp"

namespace canter::detail {
namespace {

constexpr float kHalfLogTwoPi = 0.918938533f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

Gaussian::Gaussian(int size)
    : size_(static_cast<std::size_t>(size)),
      std_(size_),
      inverse_std_(static_cast<std::size_t>(kernels::padded(size))),
      is_low_(size_),
      is_high_(size_) {}

void Gaussian::set_log_std(const float* log_std) noexcept {
  log_scale_ = entropy_ = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    const float clamped = std::clamp(log_std[i], kMinLogStd, kMaxLogStd);
    is_low_[i] = log_std[i] < kMinLogStd;
    is_high_[i] = log_std[i] > kMaxLogStd;
    std_[i] = std::exp(clamped);
    inverse_std_[i] = 1.0f / std_[i];
    log_scale_ += clamped + kHalfLogTwoPi;
    entropy_ += clamped + kHalfLogTwoPi + 0.5f;
  }
}

void Gaussian::mode(const float* mean, float* action) const noexcept {
  std::copy_n(mean, size_, action);
}

void Gaussian::sample(const float* mean, Rng& rng, float* action) const noexcept {
  for (std::size_t i = 0; i < size_; ++i)
    action[i] = mean[i] + std_[i] * static_cast<float>(rng.normal());
}

void Gaussian::log_probs(const float* mean, int stride, const float* actions,
                         const std::int32_t* indices, int first, int rows, float* z,
                         float* log_probs) const noexcept {
  kernels::in_use().gaussian_log_prob(mean, stride, actions, indices, first, rows,
                                      static_cast<int>(size_), inverse_std_.data(), log_scale_, z,
                                      log_probs);
}

void Gaussian::gradient(const float* by_log_prob, int rows, float* z, int stride,
                        float* log_std_sums) const noexcept {
  kernels::in_use().gaussian_gradient(by_log_prob, rows, static_cast<int>(size_),
                                      inverse_std_.data(), z, stride, log_std_sums);
}

void Gaussian::add_log_std_gradient(const float* log_std_sums, float by_entropy,
                                    float* gradient) const noexcept {
  for (std::size_t i = 0; i < size_; ++i) {
    const float g = log_std_sums[i] + by_entropy;
    // descent moves against the gradient: a positive one lowers log_std
    const bool leads_out = (is_low_[i] && g > 0) || (is_high_[i] && g < 0);
    if (!leads_out) gradient[i] += g;
  }
}

float Categorical::softmax(const float* logits, const std::uint8_t* mask,
                           float* probabilities) const noexcept {
  float highest = -kInfinity;
  for (std::size_t i = 0; i < count_; ++i)
    if (!mask || mask[i]) highest = std::max(highest, logits[i]);
  float sum = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    probabilities[i] = !mask || mask[i] ? std::exp(logits[i] - highest) : 0.0f;
    sum += probabilities[i];
  }
  const float inverse = 1.0f / sum;
  for (std::size_t i = 0; i < count_; ++i) probabilities[i] *= inverse;
  return highest + std::log(sum);
}

void Categorical::mode(const float* logits, const std::uint8_t* mask,
                       float* action) const noexcept {
  std::size_t best = count_;
  for (std::size_t i = 0; i < count_; ++i)
    if ((!mask || mask[i]) && (best == count_ || logits[i] > logits[best])) best = i;
  *action = static_cast<float>(best);
}

void Categorical::sample(const float* logits, const std::uint8_t* mask, Rng& rng, float* scratch,
                         float* action) const noexcept {
  softmax(logits, mask, scratch);
  // inverse of the cumulative distribution; rounding can leave u above the last sum, so the last
  // action that is possible at all is kept
  double left = rng.uniform();
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    if (scratch[i] <= 0.0f) continue;
    chosen = i;
    left -= static_cast<double>(scratch[i]);
    if (left < 0.0) break;
  }
  *action = static_cast<float>(chosen);
}

float Categorical::log_prob(const float* logits, const std::uint8_t* mask, const float* action,
                            float* scratch) const noexcept {
  const float log_sum = softmax(logits, mask, scratch);
  const auto chosen = static_cast<std::size_t>(*action);
  return mask && !mask[chosen] ? -kInfinity : logits[chosen] - log_sum;
}

float Categorical::entropy(const float* probabilities) const noexcept {
  float sum = 0;
  for (std::size_t i = 0; i < count_; ++i)
    if (probabilities[i] > 0.0f) sum -= probabilities[i] * std::log(probabilities[i]);
  return sum;
}

void Categorical::gradient(float by_log_prob, float by_entropy, const float* action,
                           float* probabilities) const noexcept {
  const float entropy_now = by_entropy != 0.0f ? entropy(probabilities) : 0.0f;
  const auto chosen = static_cast<std::size_t>(*action);
  for (std::size_t i = 0; i < count_; ++i) {
    const float p = probabilities[i];
    // d(entropy)/d(logit) = -p (log p + entropy), with limit 0 at p = 0
    const float by_spread =
        by_entropy != 0.0f && p > 0.0f ? -p * (std::log(p) + entropy_now) : 0.0f;
    probabilities[i] = by_log_prob * ((i == chosen ? 1.0f : 0.0f) - p) + by_entropy * by_spread;
  }
}

}  // namespace canter::detail
