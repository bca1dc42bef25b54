#pragma once
// Layers: forward, backward and weight gradients; packing. For the kernel files only.

#include "kernels_tiles.hpp"

namespace canter::kernels {
namespace {

// so few inputs in the last vector are worked on the other way round
constexpr int kFewInputs = 3;

template <class V>
inline V apply(int nonlinearity, V z) {
  if (nonlinearity == kTanh) return tanh(z);
  const V zero = broadcast<V>(0.0f);
  if (nonlinearity == kRelu) return max(zero, z);
  return if_positive(z, z, expm1_negative(min(zero, z)));
}

// f'(z) out of y = f(z)
template <class V>
inline V derivative(int nonlinearity, V y) {
  const V one = broadcast<V>(1.0f);
  if (nonlinearity == kTanh) return fma(-y, y, one);
  if (nonlinearity == kRelu) return if_positive(y, one, broadcast<V>(0.0f));
  return if_positive(y, one, y + one);
}

void apply_tile(int nonlinearity, int rows, int columns, float* y, long y_stride) {
  for (int r = 0; r < rows; ++r, y += y_stride)
    for_vectors(columns,
                [&]<class V>(int c) { store(y + c, apply(nonlinearity, load<V>(y + c))); });
}

void scale_tile(int nonlinearity, int rows, int columns, const float* y, long y_stride, float* dx,
                long dx_stride) {
  for (int r = 0; r < rows; ++r, y += y_stride, dx += dx_stride)
    for_vectors(columns, [&]<class V>(int c) {
      store(dx + c, load<V>(dx + c) * derivative(nonlinearity, load<V>(y + c)));
    });
}

void forward(const float* x, int x_stride, int rows, int inputs, const float* panels,
             const float* bias, int padded_outputs, int nonlinearity, float* y,
             int y_stride) noexcept {
  for (int n = 0, columns = 0; n < padded_outputs; n += columns) {
    columns = tile_columns(padded_outputs - n);
    const int width = smaller(columns, kPanel);
    for (int r = 0; r < rows; r += kTileRows) {
      const int height = smaller(kTileRows, rows - r);
      float* out = y + static_cast<long>(r) * y_stride + n;
      any_tile<kFromBias>(height, columns,
                          {x + static_cast<long>(r) * x_stride, x_stride, 1, panels, width,
                           static_cast<long>(inputs) * kPanel, inputs, bias + n, out, y_stride});
      if (nonlinearity != kNone) apply_tile(nonlinearity, height, columns, out, y_stride);
    }
    panels += static_cast<long>(inputs) * columns;
  }
}

void forward_one(const float* x, int x_stride, int rows, int padded_inputs, const float* weight,
                 float bias, float* y, int y_stride) noexcept {
  for (int r = 0; r < rows; ++r, x += x_stride, y += y_stride) {
    Wide sum = broadcast<Wide>(0.0f);
    Narrow rest = broadcast<Narrow>(0.0f);
    int k = 0;
    for (; k + kPanel <= padded_inputs; k += kPanel)
      sum = fma(load<Wide>(x + k), load<Wide>(weight + k), sum);
    if (k < padded_inputs) rest = load<Narrow>(x + k) * load<Narrow>(weight + k);
    *y = bias + sum_of(halves_sum(sum) + rest);
  }
}

void backward(const float* dz, int dz_stride, int rows, int outputs, const float* panels,
              int padded_inputs, int nonlinearity, const float* y, int y_stride, float* dx,
              int dx_stride) noexcept {
  for (int k = 0, columns = 0; k < padded_inputs; k += columns) {
    columns = tile_columns(padded_inputs - k);
    const int width = smaller(columns, kPanel);
    for (int r = 0; r < rows; r += kTileRows) {
      const int height = smaller(kTileRows, rows - r);
      float* out = dx + static_cast<long>(r) * dx_stride + k;
      any_tile<kFromZero>(height, columns,
                          {dz + static_cast<long>(r) * dz_stride, dz_stride, 1, panels, width,
                           static_cast<long>(outputs) * kPanel, outputs, nullptr, out, dx_stride});
      scale_tile(nonlinearity, height, columns, y + static_cast<long>(r) * y_stride + k, y_stride,
                 out, dx_stride);
    }
    panels += static_cast<long>(outputs) * columns;
  }
}

// sums of columns; four chains hide the latency and are joined in a fixed order
void bias_gradient(const float* dz, int dz_stride, int rows, int padded_outputs, bool accumulate,
                   float* gradient) noexcept {
  for_vectors(padded_outputs, [&]<class V>(int n) {
    V sum[4] = {broadcast<V>(0.0f), broadcast<V>(0.0f), broadcast<V>(0.0f), broadcast<V>(0.0f)};
    const float* row = dz + n;
    int r = 0;
    for (; r + 4 <= rows; r += 4)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i, row += dz_stride) sum[i] = sum[i] + load<V>(row);
    for (; r < rows; ++r, row += dz_stride) sum[0] = sum[0] + load<V>(row);
    const V total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    store(gradient + n, accumulate ? load<V>(gradient + n) + total : total);
  });
}

// the gradient of the last few inputs, which would waste most of a vector: its transpose, with the
// outputs in the vectors, spread over the columns of gradient afterwards
void last_columns(const float* dz, int dz_stride, const float* x, int x_stride, int rows,
                  int outputs, int inputs, bool accumulate, float* gradient, long gradient_row) {
  constexpr int kWidest = kTilePanels * kPanel;
  float sums[kFewInputs * kWidest];
  for (int n = 0, columns = 0; n < outputs; n += columns) {
    columns = tile_columns(padded(outputs) - n);
    any_tile<kFromZero>(inputs, columns,
                        {x, 1, x_stride, dz + n, dz_stride, kPanel, rows, nullptr, sums, kWidest});
    for (int i = 0; i < smaller(columns, outputs - n); ++i, gradient += gradient_row)
      for (int c = 0; c < inputs; ++c) {
        const float sum = sums[c * kWidest + i];
        gradient[c] = accumulate ? gradient[c] + sum : sum;
      }
  }
}

void weight_gradient(const float* dz, int dz_stride, const float* x, int x_stride, int rows,
                     int outputs, int inputs, bool accumulate, float* gradient) noexcept {
  const int padded_inputs = padded(inputs);
  for (int k = 0, columns = 0; k < padded_inputs; k += columns) {
    columns = tile_columns(padded_inputs - k);
    if (columns == 8 && inputs - k <= kFewInputs)
      return last_columns(dz, dz_stride, x + k, x_stride, rows, outputs, inputs - k, accumulate,
                          gradient + k, padded_inputs);
    for (int n = 0; n < outputs; n += kTileRows) {
      float* out = gradient + static_cast<long>(n) * padded_inputs + k;
      const Product product{dz + n, 1,    dz_stride, x + k, x_stride,
                            kPanel, rows, nullptr,   out,   padded_inputs};
      if (accumulate)
        any_tile<kFromOutput>(smaller(kTileRows, outputs - n), columns, product);
      else
        any_tile<kFromZero>(smaller(kTileRows, outputs - n), columns, product);
    }
  }
}

void pack(const float* source, int first, int steps, int all_steps, int columns,
          float* panels) noexcept {
  const int all = padded(columns);
  for (int c = 0; c < all; c += kPanel) {
    const int width = smaller(kPanel, all - c), filled = smaller(width, columns - c);
    float* out = panels + static_cast<long>(c) * all_steps + static_cast<long>(first) * width;
    for (int s = 0; s < steps; ++s, out += width) {
      const float* row = source + static_cast<long>(s) * columns + c;
      for (int i = 0; i < width; i += 8)
        store(out + i, filled >= i + 8 ? load<Narrow>(row + i)
                                       : load_first(row + i, filled > i ? filled - i : 0));
    }
  }
}

typedef float Quad __attribute__((vector_size(16)));
typedef float UnalignedQuad __attribute__((vector_size(16), aligned(4), may_alias));

inline Narrow load_pair(const float* low, const float* high) {
  const Quad a = *reinterpret_cast<const UnalignedQuad*>(low);
  const Quad b = *reinterpret_cast<const UnalignedQuad*>(high);
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
}

constexpr float kZeros[8] = {};

// out[j * out_row + i] = in[i * in_row + j], 8 x 8, of which in has the first `rows`; the others
// are zero
inline void transpose8(const float* in, long in_row, int rows, float* out, long out_row) {
  const auto row = [&](int i, int half) { return i < rows ? in + i * in_row + half : kZeros; };
#pragma GCC unroll 2
  for (int half = 0; half < 8; half += 4) {
    // rows 0-3 in the low halves and 4-7 in the high ones: then all shuffles stay within halves
    const Narrow r0 = load_pair(row(0, half), row(4, half));
    const Narrow r1 = load_pair(row(1, half), row(5, half));
    const Narrow r2 = load_pair(row(2, half), row(6, half));
    const Narrow r3 = load_pair(row(3, half), row(7, half));
    const Narrow a = __builtin_shufflevector(r0, r1, 0, 8, 1, 9, 4, 12, 5, 13);
    const Narrow b = __builtin_shufflevector(r0, r1, 2, 10, 3, 11, 6, 14, 7, 15);
    const Narrow c = __builtin_shufflevector(r2, r3, 0, 8, 1, 9, 4, 12, 5, 13);
    const Narrow d = __builtin_shufflevector(r2, r3, 2, 10, 3, 11, 6, 14, 7, 15);
    float* q = out + half * out_row;
    store(q, __builtin_shufflevector(a, c, 0, 1, 8, 9, 4, 5, 12, 13));
    store(q + out_row, __builtin_shufflevector(a, c, 2, 3, 10, 11, 6, 7, 14, 15));
    store(q + 2 * out_row, __builtin_shufflevector(b, d, 0, 1, 8, 9, 4, 5, 12, 13));
    store(q + 3 * out_row, __builtin_shufflevector(b, d, 2, 3, 10, 11, 6, 7, 14, 15));
  }
}

void pack_transposed(const float* source, int columns, int steps, int first, int padded_columns,
                     float* panels) noexcept {
  for (int c = 0; c < columns;) {
    const int at = first + c, panel = at / kPanel * kPanel;
    const int width = smaller(kPanel, padded_columns - panel);
    float* out = panels + static_cast<long>(panel) * steps + (at - panel);
    const float* row = source + static_cast<long>(c) * steps;
    // eight columns at once from an eighth column on, also where the last of them are padding
    const int count = at % 8 == 0 ? smaller(8, columns - c) : 1;
    int s = 0;
    for (; at % 8 == 0 && s + 8 <= steps; s += 8)
      transpose8(row + s, steps, count, out + static_cast<long>(s) * width, width);
    for (; s < steps; ++s)
      for (int i = 0; i < count; ++i)
        out[static_cast<long>(s) * width + i] = row[static_cast<long>(i) * steps + s];
    c += count;
  }
}

}  // namespace
}  // namespace canter::kernels
