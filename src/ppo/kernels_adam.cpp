#include "ppo/kernels_adam.hpp"

#include <math.h>

namespace canter::kernels {
namespace {

// below this a moment changes no parameter (the denominator is epsilon at least), but as it decays
// it would become a denormal number, and those are a hundred times slower
constexpr float kNegligible = 1e-35f;

// between these, a sum of squares in float32 has lost nothing that matters
constexpr double kSmallestSquare = 1e-25, kLargestSquare = 1e37;

}  // namespace

void adam_step(float* __restrict parameters, float* __restrict gradients,
               float* __restrict first_moments, float* __restrict second_moments, std::size_t n,
               const AdamStep& step) noexcept {
  const float scale = step.gradient_scale, step_size = step.step_size;
  const float beta1 = step.beta1, beta2 = step.beta2, epsilon = step.epsilon;
  const float rest1 = 1.0f - beta1, rest2 = 1.0f - beta2, inverse_bias2 = step.inverse_bias2;
  for (std::size_t i = 0; i < n; ++i) {
    const float g = gradients[i] * scale;
    const float m = beta1 * first_moments[i] + rest1 * g;
    const float v = beta2 * second_moments[i] + rest2 * g * g;
    gradients[i] = 0.0f;
    first_moments[i] = fabsf(m) < kNegligible ? 0.0f : m;
    second_moments[i] = v < kNegligible ? 0.0f : v;
    parameters[i] -= step_size * m / (sqrtf(v) * inverse_bias2 + epsilon);
  }
}

double sum_of_squares(const float* x, std::size_t n) noexcept {
  // short sums in float32: fast, and each of the lanes adds few numbers
  constexpr std::size_t kLanes = 32, kBlock = 32 * kLanes;
  double sum = 0;
  for (std::size_t first = 0; first < n; first += kBlock) {
    const std::size_t last = first + kBlock < n ? first + kBlock : n;
    float lanes[kLanes] = {};
    std::size_t i = first;
    for (; i + kLanes <= last; i += kLanes)
      for (std::size_t k = 0; k < kLanes; ++k) lanes[k] += x[i + k] * x[i + k];
    double block = 0;
    for (std::size_t k = 0; k < kLanes; ++k) block += static_cast<double>(lanes[k]);
    for (; i < last; ++i) block += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    // squares beyond the range of float32: once more in float64
    if (!(block >= kSmallestSquare && block <= kLargestSquare)) {
      block = 0;
      for (i = first; i < last; ++i) block += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
    sum += block;
  }
  return sum;
}

bool all_usable(const float* x, std::size_t n) noexcept {
  // a comparison with NaN is false
  unsigned num_bad = 0;
  for (std::size_t i = 0; i < n; ++i) num_bad += !(fabsf(x[i]) <= kLargestUsable);
  return num_bad == 0;
}

}  // namespace canter::kernels
