#pragma once
// The inner loops of the optimiser and of the checks. Compiled for x86-64-v3 on x86 like all kernel
// files; plain functions over pointers that assume valid arguments.

#include <cstddef>

namespace canter::kernels {

/// Numbers that one step of Adam shares (Kingma, Ba 2015, arXiv:1412.6980; the form of PyTorch).
struct AdamStep {
  float gradient_scale;  ///< of the norm clip
  float beta1, beta2;
  float step_size;      ///< learning rate / (1 - beta1^t)
  float inverse_bias2;  ///< 1 / sqrt(1 - beta2^t)
  float epsilon;
};

/// One step for n parameters; sets the gradients to zero for the next minibatch. Every element
/// stands alone: any split of the arrays gives the same bits.
void adam_step(float* parameters, float* gradients, float* first_moments, float* second_moments,
               std::size_t n, const AdamStep& step) noexcept;

/// Sum of x[i]^2 to float32 accuracy without its overflow, in an order that depends on n alone.
double sum_of_squares(const float* x, std::size_t n) noexcept;

/// Largest magnitude that counts as usable: beyond it a square overflows float32.
constexpr float kLargestUsable = 1e18f;

/// Whether all numbers are finite with |x| <= kLargestUsable.
bool all_usable(const float* x, std::size_t n) noexcept;

}  // namespace canter::kernels
