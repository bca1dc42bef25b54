// HalfCheetah with Gymnasium's v5 rules as an RLtools environment, so that its trainer runs without
// Python in the loop. RLtools finds the functions by argument type; it owns episodes and resets.
#pragma once

#include <mujoco/mujoco.h>
#include <rl_tools/rl/environments/environments.h>
#include <rl_tools/rl/environments/operations_generic.h>

#include <cstdlib>

constexpr int kPositions = 9, kVelocities = 9, kActions = 6, kFrameSkip = 5;

struct CheetahState {
  static constexpr unsigned DIM = kPositions + kVelocities;
  mjtNum position[kPositions];
  mjtNum velocity[kVelocities];
};
struct CheetahParameters {};
template <typename TI>
struct CheetahObservation {
  static constexpr TI DIM = kPositions - 1 + kVelocities;
};

template <typename T_T, typename T_TI>
struct Cheetah : rl_tools::rl::environments::Environment<T_T, T_TI> {
  using T = T_T;
  using TI = T_TI;
  using State = CheetahState;
  using Parameters = CheetahParameters;
  using Observation = CheetahObservation<TI>;
  using ObservationPrivileged = Observation;
  static constexpr TI ACTION_DIM = kActions;
  static constexpr TI EPISODE_STEP_LIMIT = 1000;
  mjModel* model = nullptr;
  mjData* data = nullptr;
  T reward = 0;
};
template <typename T, typename TI>
using ENVIRONMENT_FACTORY = Cheetah<T, TI>;

namespace rl_tools {

template <typename Device, typename T, typename TI>
void malloc(Device&, Cheetah<T, TI>& cheetah) {
  char error[500];
  cheetah.model = mj_loadXML(HALF_CHEETAH_MODEL, nullptr, error, sizeof error);
  if (!cheetah.model) std::abort();
  cheetah.data = mj_makeData(cheetah.model);
}

template <typename Device, typename T, typename TI>
void free(Device&, Cheetah<T, TI>& cheetah) {
  mj_deleteData(cheetah.data);
  mj_deleteModel(cheetah.model);
}

template <typename Device, typename T, typename TI>
void init(Device&, Cheetah<T, TI>&) {}

template <typename Device, typename T, typename TI>
static void initial_parameters(Device&, const Cheetah<T, TI>&, CheetahParameters&) {}

template <typename Device, typename T, typename TI, typename Rng>
static void sample_initial_parameters(Device&, const Cheetah<T, TI>&, CheetahParameters&, Rng&) {}

template <typename Device, typename T, typename TI>
static void initial_state(Device&, const Cheetah<T, TI>& cheetah, CheetahParameters&,
                          CheetahState& state) {
  mj_resetData(cheetah.model, cheetah.data);
  mju_copy(state.position, cheetah.model->qpos0, kPositions);
  mju_zero(state.velocity, kVelocities);
}

template <typename Device, typename T, typename TI, typename Rng>
static void sample_initial_state(Device& device, const Cheetah<T, TI>& cheetah,
                                 CheetahParameters& parameters, CheetahState& state, Rng& rng) {
  using Random = typename Device::SPEC::RANDOM;
  initial_state(device, cheetah, parameters, state);
  for (mjtNum& x : state.position) {
    x += random::uniform_real_distribution(Random(), T(-0.1), T(0.1), rng);
  }
  for (mjtNum& v : state.velocity) {
    v = random::normal_distribution::sample(Random(), T(0), T(0.1), rng);
  }
}

template <typename Device, typename T, typename TI, typename Action, typename Rng>
static T step(Device& device, Cheetah<T, TI>& cheetah, CheetahParameters&,
              const CheetahState& state, const Matrix<Action>& action, CheetahState& next, Rng&) {
  mjData* data = cheetah.data;
  T cost = 0;
  for (TI i = 0; i < kActions; i++) {
    const T a = math::clamp<T>(device.math, get(action, 0, i), T(-1), T(1));
    data->ctrl[i] = a;
    cost += a * a;
  }
  mju_copy(data->qpos, state.position, kPositions);
  mju_copy(data->qvel, state.velocity, kVelocities);
  for (int k = 0; k < kFrameSkip; k++) mj_step(cheetah.model, data);
  mju_copy(next.position, data->qpos, kPositions);
  mju_copy(next.velocity, data->qvel, kVelocities);
  const mjtNum seconds = kFrameSkip * cheetah.model->opt.timestep;
  cheetah.reward = T((next.position[0] - state.position[0]) / seconds) - T(0.1) * cost;
  return T(seconds);
}

template <typename Device, typename T, typename TI, typename Action, typename Rng>
static T reward(Device&, const Cheetah<T, TI>& cheetah, CheetahParameters&, const CheetahState&,
                const Matrix<Action>&, const CheetahState&, Rng&) {
  return cheetah.reward;
}

template <typename Device, typename T, typename TI, typename Out, typename Rng>
static void observe(Device&, const Cheetah<T, TI>&, const CheetahParameters&,
                    const CheetahState& state, const CheetahObservation<TI>&, Matrix<Out>& out,
                    Rng&) {
  for (TI i = 1; i < kPositions; i++) set(out, 0, i - 1, T(state.position[i]));
  for (TI i = 0; i < kVelocities; i++) set(out, 0, kPositions - 1 + i, T(state.velocity[i]));
}

template <typename Device, typename T, typename TI, typename Rng>
static bool terminated(Device&, const Cheetah<T, TI>&, CheetahParameters&, const CheetahState&,
                       Rng&) {
  return false;
}

}  // namespace rl_tools
