#pragma once
// Matrix products in register tiles, for the kernel files only.

#include "kernels.hpp"
#include "kernels_functions.hpp"

namespace canter::kernels {
namespace {

constexpr int kPanel = 16;

inline int smaller(int a, int b) {
  return a < b ? a : b;
}

// where a tile's sums start: at zero, at a row of biases, or at what the output holds
enum Start { kFromZero, kFromBias, kFromOutput };

// the operands of a tile: out[r, c] = start + sum_k a[r * a_row + k * a_step] b[k * b_step + c],
// where the second panel of b is b_panel floats behind the first
struct Product {
  const float* a;
  long a_row, a_step;
  const float* b;
  long b_step, b_panel;
  int steps;
  const float* bias;
  float* out;
  long out_row;
};

// R rows and P vectors of columns, all sums in registers: a function of its own, because inlined
// its loop would compete with the caller for registers and spill a sum
template <int R, int P, class V, Start kStart>
__attribute__((noinline)) void tile(const Product& p) {
  V acc[R][P];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < P; ++v)
      acc[r][v] = kStart == kFromZero ? broadcast<V>(0.0f)
                  : kStart == kFromBias
                      ? load<V>(p.bias + static_cast<long>(v) * kPanel)
                      : load<V>(p.out + r * p.out_row + static_cast<long>(v) * kPanel);
  const float* a = p.a;
  const float* b = p.b;
  const long a_row = p.a_row, a_step = p.a_step, b_step = p.b_step, b_panel = p.b_panel;
#pragma GCC unroll 4
  for (int k = p.steps; k > 0; --k) {
    V columns[P];
#pragma GCC unroll 2
    for (int v = 0; v < P; ++v) columns[v] = load<V>(b + v * b_panel);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const V x = broadcast<V>(a[r * a_row]);
#pragma GCC unroll 2
      for (int v = 0; v < P; ++v) acc[r][v] = fma(x, columns[v], acc[r][v]);
    }
    a += a_step;
    b += b_step;
  }
  float* out = p.out;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r, out += p.out_row)
#pragma GCC unroll 2
    for (int v = 0; v < P; ++v) store(out + static_cast<long>(v) * kPanel, acc[r][v]);
}

template <int P, class V, Start kStart>
void tile_rows(int rows, const Product& p) {
  switch (rows) {
    case 1:
      return tile<1, P, V, kStart>(p);
    case 2:
      return tile<2, P, V, kStart>(p);
    case 3:
      return tile<3, P, V, kStart>(p);
    case 4:
      return tile<4, P, V, kStart>(p);
    case 5:
      return tile<5, P, V, kStart>(p);
    case 6:
      return tile<6, P, V, kStart>(p);
    case 7:
      return tile < kTileRows < 7 ? kTileRows : 7, P, V, kStart > (p);
    default:
      return tile<kTileRows, P, V, kStart>(p);
  }
}

// one tile of at most kTileRows rows; columns: 8, 16 or 32
template <Start kStart>
void any_tile(int rows, int columns, const Product& p) {
  if (columns == 2 * kPanel)
    tile_rows<kTilePanels, Wide, kStart>(rows, p);
  else if (columns == kPanel)
    tile_rows<1, Wide, kStart>(rows, p);
  else
    tile_rows<1, Narrow, kStart>(rows, p);
}

// columns of the next tile when `left` remain, left a multiple of 8
inline int tile_columns(int left) {
  return left >= kTilePanels * kPanel ? kTilePanels * kPanel : left >= kPanel ? kPanel : 8;
}

// runs body(column) for each vector of `columns` columns
template <class Body>
inline void for_vectors(int columns, Body body) {
  int c = 0;
  for (; c + kPanel <= columns; c += kPanel) body.template operator()<Wide>(c);
  if (c < columns) body.template operator()<Narrow>(c);
}

}  // namespace
}  // namespace canter::kernels
