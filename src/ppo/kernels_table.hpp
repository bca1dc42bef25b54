#pragma once
// The rest of the loops over rows, and the table of all. For the kernel files only.

#include "kernels_layers.hpp"

namespace canter::kernels {
namespace {

inline long row_of(const int* indices, int first, int r) {
  return indices ? indices[r] : first + r;
}

void normalise(const float* in, const int* indices, int first, int rows, int size,
               const float* mean, const float* inverse_std, float clip, float* out,
               int out_stride) noexcept {
  const auto scaled = [&]<class V>(V x, int i) {
    x = (x - load<V>(mean + i)) * load<V>(inverse_std + i);
    return min(broadcast<V>(clip), max(broadcast<V>(-clip), x));
  };
  for (int r = 0; r < rows; ++r, out += out_stride) {
    const float* row = in + row_of(indices, first, r) * size;
    int i = 0;
    for (; i + 16 <= size; i += 16) store(out + i, scaled(load<Wide>(row + i), i));
    for (; i + 8 <= size; i += 8) store(out + i, scaled(load<Narrow>(row + i), i));
    if (i < size) store(out + i, scaled(load_first(row + i, size - i), i));
  }
}

void gaussian_log_prob(const float* mean, int stride, const float* actions, const int* indices,
                       int first, int rows, int size, const float* inverse_std, float log_scale,
                       float* z, float* log_probs) noexcept {
  for (int r = 0; r < rows; ++r, mean += stride, z += stride) {
    const float* action = actions + row_of(indices, first, r) * size;
    Narrow squares = broadcast<Narrow>(0.0f);
    for (int i = 0; i < size; i += 8) {
      const Narrow a = size - i >= 8 ? load<Narrow>(action + i) : load_first(action + i, size - i);
      const Narrow x = (a - load<Narrow>(mean + i)) * load<Narrow>(inverse_std + i);
      squares = fma(x, x, squares);
      store(z + i, x);
    }
    log_probs[r] = __builtin_fmaf(-0.5f, sum_of(squares), -log_scale);
  }
}

void gaussian_gradient(const float* by_log_prob, int rows, int size, const float* inverse_std,
                       float* z, int stride, float* log_std_gradient) noexcept {
  for (int i = 0; i < size; i += 8) {
    const Narrow scale = load<Narrow>(inverse_std + i), one = broadcast<Narrow>(1.0f);
    Narrow sum = broadcast<Narrow>(0.0f);
    float* p = z + i;
    for (int r = 0; r < rows; ++r, p += stride) {
      const Narrow x = load<Narrow>(p), by = broadcast<Narrow>(by_log_prob[r]);
      sum = fma(by, fma(x, x, -one), sum);
      store(p, by * x * scale);
    }
    store(log_std_gradient + i, load<Narrow>(log_std_gradient + i) + sum);
  }
}

void exponentials(float* x, int n) noexcept {
  for (int i = 0; i < n; i += 8) store(x + i, exponential(load<Narrow>(x + i)));
}

void add_slabs(const float* slabs, int num_slabs, long slab_stride, int size,
               float* target) noexcept {
  int i = 0;
  for (; i + 8 <= size; i += 8) {
    Narrow sum = load<Narrow>(slabs + i);
    for (int s = 1; s < num_slabs; ++s) sum += load<Narrow>(slabs + s * slab_stride + i);
    store(target + i, load<Narrow>(target + i) + sum);
  }
  for (; i < size; ++i) {
    float sum = slabs[i];
    for (int s = 1; s < num_slabs; ++s) sum += slabs[s * slab_stride + i];
    target[i] += sum;
  }
}

constexpr Kernels kTable{.name = kCompiledFor,
                         .forward = forward,
                         .forward_one = forward_one,
                         .backward = backward,
                         .weight_gradient = weight_gradient,
                         .bias_gradient = bias_gradient,
                         .pack = pack,
                         .pack_transposed = pack_transposed,
                         .normalise = normalise,
                         .gaussian_log_prob = gaussian_log_prob,
                         .gaussian_gradient = gaussian_gradient,
                         .exponentials = exponentials,
                         .add_slabs = add_slabs};

}  // namespace
}  // namespace canter::kernels
