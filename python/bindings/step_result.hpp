#pragma once
// The arrays of one pool step, owned by NumPy.

#include "arrays.hpp"
#include "canter/env/step.hpp"

namespace canter::python {

/// One array per field of StepView; the memory belongs to the arrays, so they outlive every pool.
struct [[gnu::visibility("hidden")]] StepResult {
  py::array_t<float> observations, rewards;
  py::array_t<bool> terminated, truncated;
  py::array_t<float> final_observations;
  py::array_t<bool> diverged;
  py::array_t<float> episode_returns;
  py::array_t<std::int32_t> episode_lengths;
  py::array_t<float> metrics;

  /// New arrays, zero everywhere.
  StepResult(int num_envs, const Spec& spec);

  /// Where a pool writes. @throws InvalidArgument if the arrays do not fit num_envs and spec.
  StepView view(int num_envs, const Spec& spec);
};

}  // namespace canter::python
