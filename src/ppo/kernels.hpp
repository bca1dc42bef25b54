#pragma once
// The inner loops of MlpPolicy, compiled once per instruction set; a table of them is chosen at run
// time. Plain functions over pointers that assume valid arguments. Matrices are row-major with a
// stride in floats; widths called "padded" are multiples of 8 whose extra columns are zero and stay
// zero. All tables give the same bits.
//
// Every output element is one chain of fused multiply-adds in index order, whatever tile it falls
// into (that of forward_one is 16 chains): a row's result does not depend on its neighbours, on the
// batch or on the thread.
//
// Weights are read from packed panels: 16 columns (the last panel may have 8) for all steps of the
// sum, one after the other: float[ceil(columns / 16)][steps][16].

namespace canter::kernels {

/// Rows that are worked on at a time: activations of a block stay in the first-level cache.
constexpr int kBlockRows = 64;

/// Columns that `n` numbers take up.
static constexpr int padded(int n) {
  return (n + 7) / 8 * 8;
}

/// Row stride for `n` numbers that keeps rows of wide layers out of each other's cache sets.
static constexpr int stride_of(int n) {
  return padded(n) + (padded(n) % 128 == 0 ? 16 : 0);
}

/// What follows a layer's affine map; the values of Activation, and none.
enum Nonlinearity { kTanh = 0, kRelu = 1, kElu = 2, kNone = 3 };

struct Kernels {
  /// "x86-64-v3": the instruction set these functions were compiled for.
  const char* name;

  /// y[r, n] = f(bias[n] + sum_k x[r, k] weight[k, n]); panels hold weight, float[inputs, outputs].
  void (*forward)(const float* x, int x_stride, int rows, int inputs, const float* panels,
                  const float* bias, int padded_outputs, int nonlinearity, float* y,
                  int y_stride) noexcept;

  /// y[r * y_stride] = bias + sum_k x[r, k] weight[k]; the sum is taken in 16 lanes.
  void (*forward_one)(const float* x, int x_stride, int rows, int padded_inputs,
                      const float* weight, float bias, float* y, int y_stride) noexcept;

  /// dx[r, k] = f'(y)[r, k] sum_n dz[r, n] weight[n, k], f' expressed by the layer's output y.
  void (*backward)(const float* dz, int dz_stride, int rows, int outputs, const float* panels,
                   int padded_inputs, int nonlinearity, const float* y, int y_stride, float* dx,
                   int dx_stride) noexcept;

  /// gradient[n, k] (+)= sum_r dz[r, n] x[r, k], float[outputs, padded(inputs)].
  void (*weight_gradient)(const float* dz, int dz_stride, const float* x, int x_stride, int rows,
                          int outputs, int inputs, bool accumulate, float* gradient) noexcept;

  /// gradient[n] (+)= sum_r dz[r, n], float[padded_outputs].
  void (*bias_gradient)(const float* dz, int dz_stride, int rows, int padded_outputs,
                        bool accumulate, float* gradient) noexcept;

  /// Packs source (float[steps, columns]) as steps [first, first + steps) of panels with all_steps.
  void (*pack)(const float* source, int first, int steps, int all_steps, int columns,
               float* panels) noexcept;

  /// Packs the transpose of source (float[columns, steps]) into columns [first, first + columns) of
  /// panels that are padded_columns wide in all; may write zeros up to the next eighth column.
  void (*pack_transposed)(const float* source, int columns, int steps, int first,
                          int padded_columns, float* panels) noexcept;

  /// out[r, i] = clip((in[row(r), i] - mean[i]) * inverse_std[i]); row(r) = indices ? indices[r] :
  /// first + r. clip: bound of |out|, infinity for none. A NaN stays NaN. Padding is set to 0.
  void (*normalise)(const float* in, const int* indices, int first, int rows, int size,
                    const float* mean, const float* inverse_std, float clip, float* out,
                    int out_stride) noexcept;

  /// z[r, i] = (action[row(r), i] - mean[r, i]) * inverse_std[i];
  /// log_probs[r] = -0.5 sum_i z[r, i]^2 - log_scale. inverse_std: padded with zeros.
  void (*gaussian_log_prob)(const float* mean, int stride, const float* actions, const int* indices,
                            int first, int rows, int size, const float* inverse_std,
                            float log_scale, float* z, float* log_probs) noexcept;

  /// log_std_gradient[i] += sum_r by_log_prob[r] (z[r, i]^2 - 1), then
  /// z[r, i] = by_log_prob[r] z[r, i] inverse_std[i], the gradient by the mean.
  void (*gaussian_gradient)(const float* by_log_prob, int rows, int size, const float* inverse_std,
                            float* z, int stride, float* log_std_gradient) noexcept;

  /// x[i] = exp(x[i]) for float[padded(n)], arguments clamped to [-87, 88].
  void (*exponentials)(float* x, int n) noexcept;

  /// target[i] += sum over s of slabs[s * slab_stride + i], in the order of s.
  void (*add_slabs)(const float* slabs, int num_slabs, long slab_stride, int size,
                    float* target) noexcept;
};

/// The tables that were built. Reading them is safe on any CPU, calling their functions is not.
extern const Kernels kBaseline, kAvx512;

/// The best table for this CPU. @throws Error when it lacks what the baseline needs, with the fix.
const Kernels& in_use();

}  // namespace canter::kernels
