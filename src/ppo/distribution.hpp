#pragma once
// Action distributions over the outputs ("parameters") of a policy network, one row at a time:
// diagonal Gaussian for Box actions, categorical for Discrete. Rows are independent of each other.

#include <cstdint>
#include <span>
#include <vector>

#include "canter/base/rng.hpp"
#include "canter/base/spec.hpp"

namespace canter::detail {

/// Diagonal Gaussian whose log standard deviations do not depend on the state. They are clamped to
/// [kMinLogStd, kMaxLogStd] where they are used, so that std stays positive and finite whatever the
/// optimiser does; outside, only gradients that pull them back are passed.
class Gaussian {
 public:
  explicit Gaussian(int size);

  /// Takes the log standard deviations float[size] that hold from now on.
  void set_log_std(const float* log_std) noexcept;

  void mode(const float* mean, float* action) const noexcept;
  void sample(const float* mean, Rng& rng, float* action) const noexcept;
  /// Log densities of the actions of a block of rows, action row = indices ? indices[r] : first +
  /// r. mean: float[rows, stride]. Leaves what `gradient` needs in z float[rows, stride].
  void log_probs(const float* mean, int stride, const float* actions, const std::int32_t* indices,
                 int first, int rows, float* z, float* log_probs) const noexcept;
  float entropy() const noexcept { return entropy_; }
  /// by_log_prob[r] * d(log_prob) by the means, written over z; by log_std, added to
  /// log_std_sums float[padded size].
  void gradient(const float* by_log_prob, int rows, float* z, int stride,
                float* log_std_sums) const noexcept;
  /// Adds a minibatch's log_std_sums, and by_entropy * d(entropy), to the gradient float[size].
  void add_log_std_gradient(const float* log_std_sums, float by_entropy,
                            float* gradient) const noexcept;

 private:
  std::size_t size_;
  std::vector<float> std_;
  std::vector<float> inverse_std_;      // padded with zeros
  std::vector<bool> is_low_, is_high_;  // beyond a bound
  float log_scale_ = 0, entropy_ = 0;
};

/// Categorical over logits, with actions that a mask (0/1 [count], or nullptr) can forbid.
class Categorical {
 public:
  explicit Categorical(int count) : count_(static_cast<std::size_t>(count)) {}

  void mode(const float* logits, const std::uint8_t* mask, float* action) const noexcept;
  /// scratch: float[count].
  void sample(const float* logits, const std::uint8_t* mask, Rng& rng, float* scratch,
              float* action) const noexcept;
  /// Log probability of the action; leaves the probabilities in scratch float[count].
  float log_prob(const float* logits, const std::uint8_t* mask, const float* action,
                 float* scratch) const noexcept;
  /// Entropy out of the probabilities that log_prob left.
  float entropy(const float* probabilities) const noexcept;
  /// by_log_prob * d(log_prob) + by_entropy * d(entropy), written over the probabilities.
  void gradient(float by_log_prob, float by_entropy, const float* action,
                float* probabilities) const noexcept;

 private:
  // writes probabilities, @returns log(sum(exp(logits)))
  float softmax(const float* logits, const std::uint8_t* mask, float* probabilities) const noexcept;

  std::size_t count_;
};

}  // namespace canter::detail
