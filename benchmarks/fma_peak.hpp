#pragma once
// The rate of fused multiply-adds that one core reaches when nothing else limits it.

#include <immintrin.h>

#include "measure.hpp"

namespace bench {

// sixteen independent chains hide the latency of two units; the sum keeps the work alive
__attribute__((target("avx2,fma"))) inline float chains_of_8(int rounds) {
  __m256 sums[10];
  for (__m256& sum : sums) sum = _mm256_set1_ps(1.0f);
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (int round = 0; round < rounds; ++round) {
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, a, b);
  }
  float total = 0;
  for (const __m256& sum : sums) total += _mm256_cvtss_f32(sum);
  return total;
}

__attribute__((target("avx512f"))) inline float chains_of_16(int rounds) {
  __m512 sums[10];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1.0f);
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (int round = 0; round < rounds; ++round) {
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, a, b);
  }
  float total = 0;
  for (const __m512& sum : sums) total += _mm512_cvtss_f32(sum);
  return total;
}

/// Multiply-adds per CPU second with vectors of `lanes` floats (8: AVX2, 16: AVX-512).
inline double fma_rate(int lanes) {
  constexpr int kRounds = 200000;
  volatile float sink = 0;
  const double seconds = time_of(
      cpu_seconds, [&] { sink = lanes == 16 ? chains_of_16(kRounds) : chains_of_8(kRounds); });
  return 10.0 * lanes * kRounds / seconds;
}

}  // namespace bench
