#pragma once
// Elementary functions over vectors, for the kernel files only: fixed polynomials, so that their
// bits depend on no mathematical library. NaN stays NaN in all of them.

#include "kernels_simd.hpp"

namespace canter::kernels {
namespace {

/// tanh(x) = x P(x^2) / Q(x^2) on |x| <= 9, where float tanh reaches 1. Own minimax fit of degrees
/// 4/4 (relative error 2.1e-8 in exact arithmetic, 6 ulp in float).
template <class V>
inline V tanh(V x) {
  x = min(broadcast<V>(9.0f), max(broadcast<V>(-9.0f), x));
  const V t = x * x;
  V p = broadcast<V>(1.335468716e-08f), q = broadcast<V>(7.776568750e-07f);
  p = fma(p, t, broadcast<V>(2.060910058e-05f));
  q = fma(q, t, broadcast<V>(3.285636614e-04f));
  p = fma(p, t, broadcast<V>(3.495589213e-03f));
  q = fma(q, t, broadcast<V>(2.587698629e-02f));
  p = fma(p, t, broadcast<V>(1.338102654e-01f));
  q = fma(q, t, broadcast<V>(4.671434213e-01f));
  p = fma(p, t, broadcast<V>(1.0f));
  q = fma(q, t, broadcast<V>(1.0f));
  return x * p / q;
}

/// exp(x) = scale * (1 + rest): x = n ln 2 + r, scale = 2^n, rest = exp(r) - 1 by Taylor's series
/// to degree 7 (|r| <= 0.35: 4e-9). For -87 <= x <= 88.
template <class V>
inline V split_exp(V x, V& scale) {
  const V magic = broadcast<V>(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const V shifted = fma(x, broadcast<V>(1.44269504f), magic);
  const V n = shifted - magic;
  V r = fma(n, broadcast<V>(-0.693145752f), x);
  r = fma(n, broadcast<V>(-1.42860677e-6f), r);
  V p = broadcast<V>(1.98412698e-4f);
  p = fma(p, r, broadcast<V>(1.38888889e-3f));
  p = fma(p, r, broadcast<V>(8.33333333e-3f));
  p = fma(p, r, broadcast<V>(4.16666667e-2f));
  p = fma(p, r, broadcast<V>(1.66666667e-1f));
  p = fma(p, r, broadcast<V>(0.5f));
  scale = power_of_two(shifted);
  return fma(r * r, p, r);
}

/// exp(x), with x clamped to [-87, 88]: always positive and finite, and 1 at 0.
template <class V>
inline V exponential(V x) {
  x = min(broadcast<V>(88.0f), max(broadcast<V>(-87.0f), x));
  V scale;
  const V rest = split_exp(x, scale);
  return fma(scale, rest, scale);
}

/// exp(x) - 1 for x <= 0 without cancellation.
template <class V>
inline V expm1_negative(V x) {
  V scale;
  const V rest = split_exp(max(broadcast<V>(-87.0f), x), scale);
  return fma(scale, rest, scale - broadcast<V>(1.0f));
}

}  // namespace
}  // namespace canter::kernels
