#pragma once
// Adam on the flat parameter array, with the clip of the gradient's global norm.

#include <cstdint>
#include <span>
#include <vector>

#include "canter/base/state.hpp"
#include "canter/base/threads.hpp"

namespace canter::detail {

/// Numbers of one optimiser step.
struct AdamOptions {
  double learning_rate = 0;
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-5f;
};

/// Moments and step count. The same bits for any number of threads.
class Adam {
 public:
  explicit Adam(std::size_t num_parameters);

  std::size_t num_parameters() const noexcept { return first_moments_.size(); }
  /// Euclidean norm of the whole gradient.
  double norm(std::span<const float> gradients, Threads& threads);
  /// parameters -= step; gradients (times gradient_scale) are used up and become zero.
  void step(std::span<float> parameters, std::span<float> gradients, float gradient_scale,
            const AdamOptions& options, Threads& threads);

  void save(StateDict& state) const;
  void validate(const StateDict& state) const;
  void load(const StateDict& state);

 private:
  std::vector<float> first_moments_, second_moments_;
  std::vector<double> chunk_sums_;
  std::int64_t num_steps_ = 0;
};

}  // namespace canter::detail
