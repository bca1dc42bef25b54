#pragma once
// The loops that a pool competes with, as one writes them in C for one task: mj_step in a loop,
// reward, observation, flags and resets by hand. They draw from the pool's random streams, so both
// sides walk the same trajectories and must end in the same bits.

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "canter/base/rng.hpp"

namespace bench {

struct Outcome {
  float reward = 0;
  bool terminated = false;
};

/// Rules of Gymnasium 1.4's HalfCheetah-v5.
struct HalfCheetah {
  static constexpr const char *kName = "HalfCheetah-v5", *kFile = "half_cheetah.xml";
  static constexpr int kFrameSkip = 5, kObservationSize = 17;
  static constexpr float kActionBound = 1;
  static constexpr bool kPostConstraint = false;

  static void reset(const mjModel* m, mjData* d, canter::Rng& rng) {
    for (int i = 0; i < m->nq; ++i) d->qpos[i] += rng.uniform(-0.1, 0.1);
    for (int i = 0; i < m->nv; ++i) d->qvel[i] = 0.1 * rng.normal();
  }
  static double position(const mjData* d) { return d->qpos[0]; }
  static Outcome outcome(const mjModel* m, const mjData*, const float* action, double velocity) {
    double cost = 0;
    for (int i = 0; i < m->nu; ++i) cost += double(action[i]) * double(action[i]);
    return {float(velocity - 0.1 * cost), false};
  }
  static void observe(const mjModel* m, const mjData* d, float* out) {
    for (int i = 1; i < m->nq; ++i) *out++ = float(d->qpos[i]);
    for (int i = 0; i < m->nv; ++i) *out++ = float(d->qvel[i]);
  }
};

/// Rules of Gymnasium 1.4's Ant-v5.
struct Ant {
  static constexpr const char *kName = "Ant-v5", *kFile = "ant.xml";
  static constexpr int kFrameSkip = 5, kObservationSize = 105;
  static constexpr float kActionBound = 1;
  static constexpr bool kPostConstraint = true;

  static void reset(const mjModel* m, mjData* d, canter::Rng& rng) {
    HalfCheetah::reset(m, d, rng);
  }
  static double position(const mjData* d) { return d->xpos[3]; }
  static Outcome outcome(const mjModel* m, const mjData* d, const float* action, double velocity) {
    bool healthy = d->qpos[2] >= 0.2 && d->qpos[2] <= 1.0;
    for (int i = 0; i < m->nq; ++i) healthy = healthy && std::isfinite(d->qpos[i]);
    for (int i = 0; i < m->nv; ++i) healthy = healthy && std::isfinite(d->qvel[i]);
    double cost = 0, contact = 0;
    for (int i = 0; i < m->nu; ++i) cost += double(action[i]) * double(action[i]);
    for (int i = 0; i < 6 * int(m->nbody); ++i) {
      const double force = std::clamp(d->cfrc_ext[i], -1.0, 1.0);
      contact += force * force;
    }
    return {float(velocity + (healthy ? 1.0 : 0.0) - (0.5 * cost + 5e-4 * contact)), !healthy};
  }
  static void observe(const mjModel* m, const mjData* d, float* out) {
    for (int i = 2; i < m->nq; ++i) *out++ = float(d->qpos[i]);
    for (int i = 0; i < m->nv; ++i) *out++ = float(d->qvel[i]);
    for (int i = 6; i < 6 * int(m->nbody); ++i)
      *out++ = float(std::clamp(d->cfrc_ext[i], -1.0, 1.0));
  }
};

/// Rules of Gymnasium 1.4's InvertedPendulum-v5.
struct InvertedPendulum {
  static constexpr const char *kName = "InvertedPendulum-v5", *kFile = "inverted_pendulum.xml";
  static constexpr int kFrameSkip = 2, kObservationSize = 4;
  static constexpr float kActionBound = 3;
  static constexpr bool kPostConstraint = false;

  static void reset(const mjModel* m, mjData* d, canter::Rng& rng) {
    for (int i = 0; i < m->nq; ++i) d->qpos[i] += rng.uniform(-0.01, 0.01);
    for (int i = 0; i < m->nv; ++i) d->qvel[i] = rng.uniform(-0.01, 0.01);
  }
  static double position(const mjData*) { return 0; }
  static Outcome outcome(const mjModel* m, const mjData* d, const float*, double) {
    bool healthy = std::abs(d->qpos[1]) <= 0.2;
    for (int i = 0; i < m->nq; ++i) healthy = healthy && std::isfinite(d->qpos[i]);
    for (int i = 0; i < m->nv; ++i) healthy = healthy && std::isfinite(d->qvel[i]);
    return {healthy ? 1.0f : 0.0f, !healthy};
  }
  static void observe(const mjModel* m, const mjData* d, float* out) {
    for (int i = 0; i < m->nq; ++i) *out++ = float(d->qpos[i]);
    for (int i = 0; i < m->nv; ++i) *out++ = float(d->qvel[i]);
  }
};

/// Whether environments have mjData of their own.
enum class Data { one_per_env, one_for_all };

/// num_envs environments of a task.
template <class Task>
class PlainLoop {
 public:
  PlainLoop(const mjModel* model, int num_envs, std::uint64_t seed, int max_steps, Data data)
      : model_(model),
        max_steps_(max_steps),
        envs_(std::size_t(num_envs)),
        state_size_(std::size_t(mj_stateSize(model, mjSTATE_INTEGRATION))),
        observations(envs_.size() * Task::kObservationSize),
        final_observations(observations.size()),
        rewards(envs_.size()),
        returns(envs_.size()),
        terminated(envs_.size()),
        truncated(envs_.size()),
        lengths(envs_.size()) {
    for (std::size_t i = 0; i < envs_.size(); ++i) {
      Env& env = envs_[i];
      env.data = i == 0 || data == Data::one_per_env ? mj_makeData(model) : envs_[0].data;
      env.rng = canter::Rng(seed, canter::Stream::environment, std::uint32_t(i), 0);
      env.row.resize(state_size_);
      reset(i);
      mj_getState(model_, env.data, env.row.data(), mjSTATE_INTEGRATION);
    }
  }
  ~PlainLoop() {
    for (std::size_t i = envs_.size(); i-- > 0;) {
      if (i == 0 || envs_[i].data != envs_[0].data) mj_deleteData(envs_[i].data);
    }
  }
  PlainLoop(const PlainLoop&) = delete;
  PlainLoop& operator=(const PlainLoop&) = delete;

  /// The usual loop: one step of environments [first, last), each in its own mjData.
  void step(const float* actions, std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) step(i, actions + i * std::size_t(model_->nu));
  }
  void step(const float* actions) { step(actions, 0, envs_.size()); }

  /// The ideal loop: one warm mjData walks each environment's whole stretch of steps in turn, so
  /// states are swapped once per stretch and not once per step.
  void run(const float* actions, int num_steps) {
    const std::size_t stride = envs_.size() * std::size_t(model_->nu);
    for (std::size_t i = 0; i < envs_.size(); ++i) {
      Env& env = envs_[i];
      mj_setState(model_, env.data, env.row.data(), mjSTATE_INTEGRATION);
      const float* action = actions + i * std::size_t(model_->nu);
      for (int t = 0; t < num_steps; ++t, action += stride) step(i, action);
      mj_getState(model_, env.data, env.row.data(), mjSTATE_INTEGRATION);
    }
  }

  /// Starts a new episode of environment i where it stands.
  void restart(std::size_t i) {
    Env& env = envs_[i];
    env.rng.start_episode(++env.episode);
    reset(i);
    mj_getState(model_, env.data, env.row.data(), mjSTATE_INTEGRATION);
  }

  /// Integration state of environment i.
  const std::vector<double>& state(std::size_t i, Data data) {
    Env& env = envs_[i];
    if (data == Data::one_per_env) {
      mj_getState(model_, env.data, env.row.data(), mjSTATE_INTEGRATION);
    }
    return env.row;
  }

 private:
  struct Env {
    mjData* data = nullptr;
    canter::Rng rng;
    std::uint32_t episode = 0;
    std::int32_t age = 0;
    float sum = 0;
    double before = 0;  // position at the end of the last step
    std::vector<double> row;
  };

  void reset(std::size_t i) {
    Env& env = envs_[i];
    mj_resetData(model_, env.data);
    Task::reset(model_, env.data, env.rng);
    mj_forward(model_, env.data);
    env.before = Task::position(env.data);
    env.age = 0;
    env.sum = 0;
    Task::observe(model_, env.data, &observations[i * Task::kObservationSize]);
  }

  void step(std::size_t i, const float* action) {
    Env& env = envs_[i];
    mjData* d = env.data;
    for (int k = 0; k < model_->nu; ++k) d->ctrl[k] = action[k];
    for (int k = 0; k < Task::kFrameSkip; ++k) mj_step(model_, d);
    if (Task::kPostConstraint) mj_rnePostConstraint(model_, d);

    const double after = Task::position(d);
    const double velocity = (after - env.before) / (Task::kFrameSkip * model_->opt.timestep);
    env.before = after;
    const Outcome outcome = Task::outcome(model_, d, action, velocity);
    rewards[i] = outcome.reward;
    env.sum += outcome.reward;
    terminated[i] = outcome.terminated;
    truncated[i] = ++env.age == max_steps_;

    float* observation = &observations[i * Task::kObservationSize];
    Task::observe(model_, d, observation);
    if (!terminated[i] && !truncated[i]) return;
    std::copy_n(observation, Task::kObservationSize,
                &final_observations[i * Task::kObservationSize]);
    returns[i] = env.sum;
    lengths[i] = env.age;
    env.rng.start_episode(++env.episode);
    reset(i);
  }

  const mjModel* model_;
  int max_steps_;
  std::vector<Env> envs_;
  std::size_t state_size_;

 public:
  std::vector<float> observations, final_observations, rewards, returns;
  std::vector<std::uint8_t> terminated, truncated;
  std::vector<std::int32_t> lengths;
};

/// Loads a task's model from a folder. The engine's own reset after a blow-up is off, as in pools.
inline mjModel* load(const std::string& folder, const char* file) {
  char error[500] = "";
  mjModel* model = mj_loadXML((folder + "/" + file).c_str(), nullptr, error, sizeof error);
  if (!model) throw std::runtime_error(error);
  model->opt.disableflags |= mjDSBL_AUTORESET;
  return model;
}

/// Uniform actions float[num_steps, num_envs, size] within +-bound.
inline std::vector<float> random_actions(int num_steps, int num_envs, int size, float bound) {
  std::vector<float> actions(std::size_t(num_steps) * std::size_t(num_envs) * std::size_t(size));
  canter::Rng rng(1, canter::Stream::action, 0, 0);
  for (float& action : actions) action = float(rng.uniform(-bound, bound));
  return actions;
}

}  // namespace bench
