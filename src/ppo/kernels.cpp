#include "kernels.hpp"

#include "kernels_simd.hpp"

namespace canter::kernels {
namespace {

constexpr int kTileRows = 6;

// accumulators += a (broadcast, R rows) times b (V vectors), over `steps` steps
template <int R, int V>
inline void multiply(Vector (&acc)[R][V], const float* a, long a_row, long a_step, const float* b,
                     long b_step, int steps) {
  for (int k = 0; k < steps; ++k) {
    Vector columns[V];
    for (int v = 0; v < V; ++v) columns[v] = load(b + v * kLanes);
    for (int r = 0; r < R; ++r) {
      const Vector x = broadcast(a[r * a_row]);
      for (int v = 0; v < V; ++v) acc[r][v] = fma(x, columns[v], acc[r][v]);
    }
    a += a_step;
    b += b_step;
  }
}

// where a tile's sums start: the same vectors in every row, or (accumulate) what is in memory
template <int R, int V>
inline void tile(const float* a, long a_row, long a_step, const float* b, long b_step, int steps,
                 const float* start, long start_row, float* out, long out_row) {
  Vector acc[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v)
      acc[r][v] = start ? load(start + r * start_row + v * kLanes) : broadcast(0.0f);
  multiply<R, V>(acc, a, a_row, a_step, b, b_step, steps);
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) store(out + r * out_row + v * kLanes, acc[r][v]);
}

template <int V>
void tile_rows(int rows, const float* a, long a_row, long a_step, const float* b, long b_step,
               int steps, const float* start, long start_row, float* out, long out_row) {
  switch (rows) {
    case 1:
      return tile<1, V>(a, a_row, a_step, b, b_step, steps, start, start_row, out, out_row);
    case 2:
      return tile<2, V>(a, a_row, a_step, b, b_step, steps, start, start_row, out, out_row);
    case 3:
      return tile<3, V>(a, a_row, a_step, b, b_step, steps, start, start_row, out, out_row);
    case 4:
      return tile<4, V>(a, a_row, a_step, b, b_step, steps, start, start_row, out, out_row);
    case 5:
      return tile<5, V>(a, a_row, a_step, b, b_step, steps, start, start_row, out, out_row);
    default:
      return tile<6, V>(a, a_row, a_step, b, b_step, steps, start, start_row, out, out_row);
  }
}

// one tile of at most 6 rows and 16 columns
inline void any_tile(int rows, int columns, const float* a, long a_row, long a_step, const float* b,
                     long b_step, int steps, const float* start, long start_row, float* out,
                     long out_row) {
  if (columns == 2 * kLanes)
    tile_rows<2>(rows, a, a_row, a_step, b, b_step, steps, start, start_row, out, out_row);
  else
    tile_rows<1>(rows, a, a_row, a_step, b, b_step, steps, start, start_row, out, out_row);
}

inline int smaller(int a, int b) {
  return a < b ? a : b;
}

inline Vector apply(int nonlinearity, Vector z) {
  if (nonlinearity == kTanh) return tanh(z);
  const Vector zero = broadcast(0.0f);
  if (nonlinearity == kRelu) return max(zero, z);
  return select(z > zero, z, expm1_negative(min(zero, z)));
}

// f'(z) out of y = f(z); a NaN in y stays a NaN in every case
inline Vector derivative(int nonlinearity, Vector y) {
  const Vector one = broadcast(1.0f), zero = broadcast(0.0f);
  if (nonlinearity == kTanh) return fma(-y, y, one);
  if (nonlinearity == kRelu) return select(y > zero, one, zero);
  return select(y > zero, one, y + one);
}

void apply_tile(int nonlinearity, int rows, int columns, float* y, long y_stride) {
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; c += kLanes)
      store(y + r * y_stride + c, apply(nonlinearity, load(y + r * y_stride + c)));
}

void scale_tile(int nonlinearity, int rows, int columns, const float* y, long y_stride, float* dx,
                long dx_stride) {
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; c += kLanes) {
      float* p = dx + r * dx_stride + c;
      store(p, load(p) * derivative(nonlinearity, load(y + r * y_stride + c)));
    }
}

// sums of columns; four chains hide the latency and are joined in a fixed order
void add_columns(const float* dz, int dz_stride, int rows, int padded_outputs, bool accumulate,
                 float* out) {
  for (int n = 0; n < padded_outputs; n += kLanes) {
    Vector sum[4] = {};
    for (int r = 0; r < rows; ++r) sum[r % 4] += load(dz + static_cast<long>(r) * dz_stride + n);
    const Vector total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    store(out + n, accumulate ? load(out + n) + total : total);
  }
}

}  // namespace

const char* compiled_for() noexcept {
  return kCompiledFor;
}

void forward(const float* x, int x_stride, int rows, int inputs, const float* panels,
             const float* bias, int padded_outputs, int nonlinearity, float* y,
             int y_stride) noexcept {
  for (int n = 0; n < padded_outputs; n += 2 * kLanes) {
    const int columns = smaller(2 * kLanes, padded_outputs - n);
    for (int r = 0; r < rows; r += kTileRows) {
      const int height = smaller(kTileRows, rows - r);
      float* out = y + static_cast<long>(r) * y_stride + n;
      any_tile(height, columns, x + static_cast<long>(r) * x_stride, x_stride, 1, panels, columns,
               inputs, bias + n, 0, out, y_stride);
      if (nonlinearity != kNone) apply_tile(nonlinearity, height, columns, out, y_stride);
    }
    panels += static_cast<long>(inputs) * columns;
  }
}

void backward(const float* dz, int dz_stride, int rows, int outputs, const float* panels,
              int padded_inputs, int nonlinearity, const float* y, int y_stride, float* dx,
              int dx_stride) noexcept {
  for (int k = 0; k < padded_inputs; k += 2 * kLanes) {
    const int columns = smaller(2 * kLanes, padded_inputs - k);
    for (int r = 0; r < rows; r += kTileRows) {
      const int height = smaller(kTileRows, rows - r);
      float* out = dx + static_cast<long>(r) * dx_stride + k;
      any_tile(height, columns, dz + static_cast<long>(r) * dz_stride, dz_stride, 1, panels,
               columns, outputs, nullptr, 0, out, dx_stride);
      scale_tile(nonlinearity, height, columns, y + static_cast<long>(r) * y_stride + k, y_stride,
                 out, dx_stride);
    }
    panels += static_cast<long>(outputs) * columns;
  }
}

void weight_gradient(const float* dz, int dz_stride, const float* x, int x_stride, int rows,
                     int outputs, int padded_inputs, bool accumulate, float* gradient,
                     float* bias_gradient) noexcept {
  for (int k = 0; k < padded_inputs; k += 2 * kLanes) {
    const int columns = smaller(2 * kLanes, padded_inputs - k);
    for (int n = 0; n < outputs; n += kTileRows) {
      float* out = gradient + static_cast<long>(n) * padded_inputs + k;
      any_tile(smaller(kTileRows, outputs - n), columns, dz + n, 1, dz_stride, x + k, x_stride,
               rows, accumulate ? out : nullptr, padded_inputs, out, padded_inputs);
    }
  }
  add_columns(dz, dz_stride, rows, padded(outputs), accumulate, bias_gradient);
}

void pack(const float* source, int first, int steps, int all_steps, int columns,
          float* panels) noexcept {
  const int all = padded(columns);
  for (int c = 0; c < all; c += 2 * kLanes) {
    const int width = smaller(2 * kLanes, all - c), filled = smaller(width, columns - c);
    float* out = panels + static_cast<long>(c) * all_steps + static_cast<long>(first) * width;
    for (int s = 0; s < steps; ++s, out += width) {
      const float* row = source + static_cast<long>(s) * columns + c;
      if (filled == width) {
        for (int i = 0; i < width; i += kLanes) store(out + i, load(row + i));
      } else {
        for (int i = 0; i < width; ++i) out[i] = i < filled ? row[i] : 0.0f;
      }
    }
  }
}

void pack_transposed(const float* source, int columns, int steps, int first, int padded_columns,
                     float* panels) noexcept {
  for (int c = 0; c < columns; ++c) {
    const int at = first + c, panel = at / (2 * kLanes) * (2 * kLanes);
    const int width = smaller(2 * kLanes, padded_columns - panel);
    float* out = panels + static_cast<long>(panel) * steps + (at - panel);
    const float* row = source + static_cast<long>(c) * steps;
    for (int s = 0; s < steps; ++s) out[static_cast<long>(s) * width] = row[s];
  }
}

void normalise(const float* in, const int* indices, int first, int rows, int size,
               const float* mean, const float* inverse_std, float clip, float* out,
               int out_stride) noexcept {
  const Vector high = broadcast(clip), low = broadcast(-clip);
  const int whole = size / kLanes * kLanes;
  for (int r = 0; r < rows; ++r) {
    const float* row = in + static_cast<long>(indices ? indices[r] : first + r) * size;
    for (int i = 0; i < whole; i += kLanes) {
      const Vector x = (load(row + i) - load(mean + i)) * load(inverse_std + i);
      store(out + i, min(high, max(low, x)));
    }
    if (whole < size) {
      float rest[kLanes] = {};
      for (int i = whole; i < size; ++i) rest[i - whole] = row[i];
      const Vector x = (load(rest) - load(mean + whole)) * load(inverse_std + whole);
      store(out + whole, min(high, max(low, x)));
    }
    out += out_stride;
  }
}

void add_slabs(const float* slabs, int num_slabs, long slab_stride, int size,
               float* target) noexcept {
  int i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    Vector sum = load(slabs + i);
    for (int s = 1; s < num_slabs; ++s) sum += load(slabs + s * slab_stride + i);
    store(target + i, load(target + i) + sum);
  }
  for (; i < size; ++i) {
    float sum = slabs[i];
    for (int s = 1; s < num_slabs; ++s) sum += slabs[s * slab_stride + i];
    target[i] += sum;
  }
}

}  // namespace canter::kernels
