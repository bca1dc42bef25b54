#include <string_view>

#include "canter/base/error.hpp"
#include "canter/ppo/mlp_policy.hpp"
#include "kernels.hpp"

namespace canter {
namespace kernels {
namespace {

#if defined(__x86_64__)
bool has_baseline() {
  return std::string_view(kBaseline.name) == "portable" ||
         (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
          __builtin_cpu_supports("bmi2"));
}
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#else
bool has_baseline() {
  return true;
}
bool has_avx512() {
  return false;
}
#endif

}  // namespace

const Kernels& in_use() {
  // asked once: the answer is a constant of the machine
  static const bool baseline = has_baseline(), avx512 = has_avx512();
  if (!baseline)
    throw Error(
        "this CPU lacks AVX2, FMA or BMI2, which the kernels of MlpPolicy were compiled for; "
        "build canter with -DCANTER_MARCH=x86-64 on it");
  return avx512 ? kAvx512 : kBaseline;
}

}  // namespace kernels

std::string_view kernel_name() {
  return kernels::in_use().name;
}

}  // namespace canter
