#pragma once
// Vectors of 8 (Narrow) and 16 floats (Wide), for the kernel files only: they are compiled with
// their own -march. A Wide is one register with AVX-512 and a pair elsewhere; the bits are the
// same. Everything is in an unnamed namespace: no function or type compiled for AVX may reach
// another translation unit. Fused multiply-adds are explicit and -ffp-contract is off, so the bits
// do not depend on the compiler either.

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
// gcc 12 takes the "undefined" operand of its own AVX-512 intrinsics for a mistake (bug 105593)
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#else
// the functions below are inlined, so how vectors are passed does not matter
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace canter::kernels {
namespace {

typedef float Narrow __attribute__((vector_size(32)));
typedef int NarrowInt __attribute__((vector_size(32)));
typedef float UnalignedNarrow __attribute__((vector_size(32), aligned(4), may_alias));

template <class V>
V load(const float* p);
template <class V>
V broadcast(float x);

template <>
inline Narrow load<Narrow>(const float* p) {
  return *reinterpret_cast<const UnalignedNarrow*>(p);
}
template <>
inline Narrow broadcast<Narrow>(float x) {
  return Narrow{x, x, x, x, x, x, x, x};
}
inline void store(float* p, Narrow v) {
  *reinterpret_cast<UnalignedNarrow*>(p) = v;
}

#if defined(__AVX2__) && defined(__FMA__)
inline Narrow fma(Narrow a, Narrow b, Narrow c) {
  return _mm256_fmadd_ps(a, b, c);
}
// both return x when it is NaN, so that a NaN survives min(bound, x)
inline Narrow min(Narrow bound, Narrow x) {
  return _mm256_min_ps(bound, x);
}
inline Narrow max(Narrow bound, Narrow x) {
  return _mm256_max_ps(bound, x);
}
/// x > 0 ? yes : no
inline Narrow if_positive(Narrow x, Narrow yes, Narrow no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
}
/// The first n of 8 floats, zeros behind; reads nothing beyond.
inline Narrow load_first(const float* p, int n) {
  const NarrowInt lane = {0, 1, 2, 3, 4, 5, 6, 7};
  return _mm256_maskload_ps(p, reinterpret_cast<__m256i>(lane < n));
}
#else
inline Narrow fma(Narrow a, Narrow b, Narrow c) {
  Narrow r;
  for (int i = 0; i < 8; ++i) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return r;
}
inline Narrow select(NarrowInt mask, Narrow yes, Narrow no) {
  return reinterpret_cast<Narrow>((mask & reinterpret_cast<NarrowInt>(yes)) |
                                  (~mask & reinterpret_cast<NarrowInt>(no)));
}
inline Narrow min(Narrow bound, Narrow x) {
  return select(bound < x, bound, x);
}
inline Narrow max(Narrow bound, Narrow x) {
  return select(bound > x, bound, x);
}
inline Narrow if_positive(Narrow x, Narrow yes, Narrow no) {
  return select(x > broadcast<Narrow>(0.0f), yes, no);
}
inline Narrow load_first(const float* p, int n) {
  Narrow r = broadcast<Narrow>(0.0f);
  for (int i = 0; i < n; ++i) r[i] = p[i];
  return r;
}
#endif

/// All eight, in a fixed order.
inline float sum_of(Narrow v) {
  const float a = (v[0] + v[4]) + (v[2] + v[6]), b = (v[1] + v[5]) + (v[3] + v[7]);
  return a + b;
}

/// 2^n for the integer n that `shifted` holds as n + 1.5 * 2^23.
inline Narrow power_of_two(Narrow shifted) {
  return reinterpret_cast<Narrow>((reinterpret_cast<NarrowInt>(shifted) << 23) + 0x3F800000);
}

#if defined(__AVX512F__)

constexpr const char* kCompiledFor = "x86-64-v4";
// tiles of 8 x 32: 16 sums, 2 columns and a broadcast in 32 registers
constexpr int kTileRows = 8, kTilePanels = 2;

typedef float Wide __attribute__((vector_size(64)));
typedef int WideInt __attribute__((vector_size(64)));
typedef float UnalignedWide __attribute__((vector_size(64), aligned(4), may_alias));

template <>
inline Wide load<Wide>(const float* p) {
  return *reinterpret_cast<const UnalignedWide*>(p);
}
template <>
inline Wide broadcast<Wide>(float x) {
  return _mm512_set1_ps(x);
}
inline void store(float* p, Wide v) {
  *reinterpret_cast<UnalignedWide*>(p) = v;
}
inline Wide fma(Wide a, Wide b, Wide c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline Wide min(Wide bound, Wide x) {
  return _mm512_min_ps(bound, x);
}
inline Wide max(Wide bound, Wide x) {
  return _mm512_max_ps(bound, x);
}
inline Wide if_positive(Wide x, Wide yes, Wide no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), no, yes);
}
inline Narrow halves_sum(Wide v) {
  return _mm512_castps512_ps256(v) + _mm512_extractf32x8_ps(v, 1);
}
inline Wide power_of_two(Wide shifted) {
  return reinterpret_cast<Wide>((reinterpret_cast<WideInt>(shifted) << 23) + 0x3F800000);
}

#else

#if defined(__AVX2__) && defined(__FMA__)
constexpr const char* kCompiledFor = "x86-64-v3";
#else
constexpr const char* kCompiledFor = "portable";
#endif
// tiles of 6 x 16: 12 sums, 2 columns and a broadcast in 16 registers
constexpr int kTileRows = 6, kTilePanels = 1;

struct Wide {
  Narrow low, high;
};

template <>
inline Wide load<Wide>(const float* p) {
  return {load<Narrow>(p), load<Narrow>(p + 8)};
}
template <>
inline Wide broadcast<Wide>(float x) {
  return {broadcast<Narrow>(x), broadcast<Narrow>(x)};
}
inline void store(float* p, Wide v) {
  store(p, v.low);
  store(p + 8, v.high);
}
inline Wide operator-(Wide a) {
  return {-a.low, -a.high};
}
inline Wide operator+(Wide a, Wide b) {
  return {a.low + b.low, a.high + b.high};
}
inline Wide operator-(Wide a, Wide b) {
  return {a.low - b.low, a.high - b.high};
}
inline Wide operator*(Wide a, Wide b) {
  return {a.low * b.low, a.high * b.high};
}
inline Wide operator/(Wide a, Wide b) {
  return {a.low / b.low, a.high / b.high};
}
inline Wide fma(Wide a, Wide b, Wide c) {
  return {fma(a.low, b.low, c.low), fma(a.high, b.high, c.high)};
}
inline Wide min(Wide bound, Wide x) {
  return {min(bound.low, x.low), min(bound.high, x.high)};
}
inline Wide max(Wide bound, Wide x) {
  return {max(bound.low, x.low), max(bound.high, x.high)};
}
inline Wide if_positive(Wide x, Wide yes, Wide no) {
  return {if_positive(x.low, yes.low, no.low), if_positive(x.high, yes.high, no.high)};
}
inline Narrow halves_sum(Wide v) {
  return v.low + v.high;
}
inline Wide power_of_two(Wide shifted) {
  return {power_of_two(shifted.low), power_of_two(shifted.high)};
}

#endif

}  // namespace
}  // namespace canter::kernels
