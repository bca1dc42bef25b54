#include <string>
#include <string_view>

#include "canter/base/error.hpp"
#include "canter/ppo/mlp_policy.hpp"
#include "kernels.hpp"

namespace canter {
namespace kernels {
namespace {

// whether this CPU can run functions that were compiled for `name`
bool can_run(std::string_view name) {
#if defined(__x86_64__)
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (name == "x86-64-v4") return v4;
  if (name == "x86-64-v3") return v3;
#endif
  return name == "portable";
}

}  // namespace

const Kernels& in_use() {
  // asked once: the answer is a constant of the machine
  static const bool kHasBaseline = can_run(kBaseline.name), kHasAvx512 = can_run(kAvx512.name);
  if (kHasAvx512) return kAvx512;
  if (!kHasBaseline)
    throw Error("this CPU lacks what the kernels of MlpPolicy were compiled for (" +
                std::string(kBaseline.name) +
                ", which needs AVX2, FMA and BMI2); build canter with -DCANTER_MARCH=x86-64 on it");
  return kBaseline;
}

}  // namespace kernels

std::string_view kernel_name() {
  return kernels::in_use().name;
}

}  // namespace canter
