// What pools give back: the arrays of a step, totals, the state of one environment.

#include "step_result.hpp"

#include <algorithm>
#include <map>

#include "canter/base/error.hpp"
#include "canter/env/pool.hpp"

namespace canter::python {
namespace {

template <class Array>
Array zeros(Shape shape) {
  Array array(shape);
  std::memset(array.mutable_data(), 0, static_cast<std::size_t>(array.nbytes()));
  return array;
}

template <class T>
std::span<T> fitting(py::array_t<T>& array, int num_envs, int width, const char* name) {
  const auto size = static_cast<std::size_t>(num_envs) * static_cast<std::size_t>(width);
  if (static_cast<std::size_t>(array.size()) != size)
    throw InvalidArgument(std::string("out.") + name + " must have " + std::to_string(size) +
                          " entries for this pool, got " + describe(array));
  return mutable_span(array);
}

std::span<std::uint8_t> bytes_of(std::span<bool> flags) {
  return {reinterpret_cast<std::uint8_t*>(flags.data()), flags.size()};
}

}  // namespace

StepResult::StepResult(int num_envs, const Spec& spec)
    : observations(zeros<py::array_t<float>>({num_envs, spec.observation_size})),
      rewards(zeros<py::array_t<float>>({num_envs})),
      terminated(zeros<py::array_t<bool>>({num_envs})),
      truncated(zeros<py::array_t<bool>>({num_envs})),
      final_observations(zeros<py::array_t<float>>({num_envs, spec.observation_size})),
      diverged(zeros<py::array_t<bool>>({num_envs})),
      episode_returns(zeros<py::array_t<float>>({num_envs})),
      episode_lengths(zeros<py::array_t<std::int32_t>>({num_envs})),
      metrics(
          zeros<py::array_t<float>>({num_envs, static_cast<py::ssize_t>(spec.metrics.size())})) {}

StepView StepResult::view(int n, const Spec& spec) {
  const int width = spec.observation_size;
  return {.observations = fitting(observations, n, width, "observations"),
          .rewards = fitting(rewards, n, 1, "rewards"),
          .terminated = bytes_of(fitting(terminated, n, 1, "terminated")),
          .truncated = bytes_of(fitting(truncated, n, 1, "truncated")),
          .final_observations = fitting(final_observations, n, width, "final_observations"),
          .diverged = bytes_of(fitting(diverged, n, 1, "diverged")),
          .episode_returns = fitting(episode_returns, n, 1, "episode_returns"),
          .episode_lengths = fitting(episode_lengths, n, 1, "episode_lengths"),
          .metrics = fitting(metrics, n, static_cast<int>(spec.metrics.size()), "metrics")};
}

void bind_step_result(py::module_& m) {
  py::class_<StepResult>(m, "StepResult", R"(What one step of a pool gave; rows are environments.

Rows of `final_observations`, `episode_returns` and `episode_lengths` are written only where an
episode ended (`terminated | truncated`): elsewhere a fresh result holds zeros, and `pool.buffers`
what an earlier step left there.)")
      .def_readonly("observations", &StepResult::observations,
                    "float32[num_envs, observation_size]; of the new episode where one ended.")
      .def_readonly("rewards", &StepResult::rewards, "float32[num_envs].")
      .def_readonly("terminated", &StepResult::terminated,
                    "bool[num_envs]: the task ended the episode.")
      .def_readonly("truncated", &StepResult::truncated,
                    "bool[num_envs]: the time limit ended it; independent of terminated.")
      .def_readonly("final_observations", &StepResult::final_observations,
                    "float32[num_envs, observation_size] of the episodes that ended.")
      .def_readonly("diverged", &StepResult::diverged,
                    "bool[num_envs]: the physics blew up (terminated is set too).")
      .def_readonly("episode_returns", &StepResult::episode_returns,
                    "float32[num_envs]: sum of rewards of the episodes that ended.")
      .def_readonly("episode_lengths", &StepResult::episode_lengths,
                    "int32[num_envs]: steps of the episodes that ended.")
      .def_readonly("metrics", &StepResult::metrics,
                    "float32[num_envs, len(spec.metrics)]: what the task measures.");

  py::class_<PoolStatistics>(m, "PoolStatistics", "Totals since a pool was made.")
      .def_readonly("env_steps", &PoolStatistics::env_steps)
      .def_readonly("episodes", &PoolStatistics::episodes)
      .def_readonly("terminated", &PoolStatistics::terminated)
      .def_readonly("truncated", &PoolStatistics::truncated)
      .def_readonly("diverged", &PoolStatistics::diverged)
      .def_readonly("num_threads", &PoolStatistics::num_threads)
      .def_readonly("num_shards", &PoolStatistics::num_shards)
      .def_property_readonly(
          "warnings",
          [](const PoolStatistics& s) {
            return std::map<std::string, std::int64_t>(s.warnings.begin(), s.warnings.end());
          },
          "MuJoCo's warning texts and how often each came.")
      .def("__repr__", [](const PoolStatistics& s) {
        return "PoolStatistics(env_steps=" + std::to_string(s.env_steps) +
               ", episodes=" + std::to_string(s.episodes) +
               ", diverged=" + std::to_string(s.diverged) + ')';
      });

  py::class_<EnvState>(m, "EnvState", "State of one environment in double precision.")
      .def_property_readonly(
          "qpos", [](const EnvState& s) { return copy_of(std::span(s.qpos)); },
          "Generalised positions, float64[nq].")
      .def_property_readonly(
          "qvel", [](const EnvState& s) { return copy_of(std::span(s.qvel)); },
          "Generalised velocities, float64[nv].")
      .def_readonly("time", &EnvState::time, "Simulated time [s].")
      .def_property_readonly(
          "integration_state",
          [](const EnvState& s) { return copy_of(std::span(s.integration_state)); },
          "MuJoCo's mjSTATE_INTEGRATION row, float64; empty for other simulators.");
}

}  // namespace canter::python
