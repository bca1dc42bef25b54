#pragma once
// Eight floats at a time, for the kernel files only (they are compiled with their own -march).
// Everything is static: no function compiled for AVX may reach another translation unit. Fused
// multiply-adds are explicit and -ffp-contract is off, so the bits do not depend on the compiler.

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#endif

namespace canter::kernels {

#if defined(__AVX2__) && defined(__FMA__)
static constexpr const char* kCompiledFor = "x86-64-v3";
#else
static constexpr const char* kCompiledFor = "portable";
// the functions below are inlined, so how vectors are passed does not matter
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

typedef float Vector __attribute__((vector_size(32)));
typedef int IntVector __attribute__((vector_size(32)));
typedef float UnalignedVector __attribute__((vector_size(32), aligned(4), may_alias));

static constexpr int kLanes = 8;

static inline Vector load(const float* p) {
  return *reinterpret_cast<const UnalignedVector*>(p);
}
static inline void store(float* p, Vector v) {
  *reinterpret_cast<UnalignedVector*>(p) = v;
}
static inline Vector broadcast(float x) {
  return Vector{x, x, x, x, x, x, x, x};
}

#if defined(__AVX2__) && defined(__FMA__)
static inline Vector fma(Vector a, Vector b, Vector c) {
  return _mm256_fmadd_ps(a, b, c);
}
// both return the second operand when one is NaN, so a NaN in x survives min(bound, x)
static inline Vector min(Vector bound, Vector x) {
  return _mm256_min_ps(bound, x);
}
static inline Vector max(Vector bound, Vector x) {
  return _mm256_max_ps(bound, x);
}
static inline Vector select(IntVector mask, Vector yes, Vector no) {
  return _mm256_blendv_ps(no, yes, reinterpret_cast<Vector>(mask));
}
#else
static inline Vector fma(Vector a, Vector b, Vector c) {
  Vector r;
  for (int i = 0; i < kLanes; ++i) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return r;
}
static inline Vector select(IntVector mask, Vector yes, Vector no) {
  return reinterpret_cast<Vector>((mask & reinterpret_cast<IntVector>(yes)) |
                                  (~mask & reinterpret_cast<IntVector>(no)));
}
static inline Vector min(Vector bound, Vector x) {
  return select(bound < x, bound, x);
}
static inline Vector max(Vector bound, Vector x) {
  return select(bound > x, bound, x);
}
#endif

/// tanh(x) = x P(x^2) / Q(x^2) on |x| <= 9, where float tanh reaches 1. Own minimax fit of degrees
/// 4/4 (relative error 2.1e-8 in exact arithmetic; 6 ulp in float). NaN stays NaN.
static inline Vector tanh(Vector x) {
  x = min(broadcast(9.0f), max(broadcast(-9.0f), x));
  const Vector t = x * x;
  Vector p = broadcast(1.335468716e-08f), q = broadcast(7.776568750e-07f);
  p = fma(p, t, broadcast(2.060910058e-05f));
  q = fma(q, t, broadcast(3.285636614e-04f));
  p = fma(p, t, broadcast(3.495589213e-03f));
  q = fma(q, t, broadcast(2.587698629e-02f));
  p = fma(p, t, broadcast(1.338102654e-01f));
  q = fma(q, t, broadcast(4.671434213e-01f));
  p = fma(p, t, broadcast(1.0f));
  q = fma(q, t, broadcast(1.0f));
  return x * p / q;
}

/// exp(x) - 1 for x <= 0 without cancellation: x = n ln 2 + r, 2^n (exp(r) - 1) + (2^n - 1).
/// Taylor to degree 7 (|r| <= 0.35: 4e-9). Below -87 it is -1. NaN stays NaN.
static inline Vector expm1_negative(Vector x) {
  x = max(broadcast(-87.0f), x);
  const Vector magic = broadcast(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const Vector shifted = fma(x, broadcast(1.44269504f), magic);
  const Vector n = shifted - magic;
  Vector r = fma(n, broadcast(-0.693145752f), x);
  r = fma(n, broadcast(-1.42860677e-6f), r);
  Vector p = broadcast(1.98412698e-4f);
  p = fma(p, r, broadcast(1.38888889e-3f));
  p = fma(p, r, broadcast(8.33333333e-3f));
  p = fma(p, r, broadcast(4.16666667e-2f));
  p = fma(p, r, broadcast(1.66666667e-1f));
  p = fma(p, r, broadcast(0.5f));
  const Vector m = fma(r * r, p, r);
  const IntVector exponent = (reinterpret_cast<IntVector>(shifted) << 23) + 0x3F800000;
  const Vector scale = reinterpret_cast<Vector>(exponent);
  return fma(scale, m, scale - broadcast(1.0f));
}

}  // namespace canter::kernels
