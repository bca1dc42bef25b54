#pragma once
// Hopper and Walker2d are one task with two bodies and two ideas of being upright.

#include <algorithm>
#include <span>

#include "canter/env/mujoco/action_box.hpp"
#include "canter/env/mujoco/task.hpp"
#include "locomotion.hpp"

namespace canter::tasks {

/// When a planar walker counts as healthy.
struct UprightLimits {
  OpenRange height{};  ///< of the torso [m]
  OpenRange angle{};   ///< of the torso [rad]
  OpenRange state{};   ///< of every number of qpos[2:] and qvel
};

/// A torso that moves in the x-z plane (qpos = x, z, angle, joints) on legs.
/// observation = qpos[1:], qvel clipped to +-10; reward dx/dt + 1 while healthy - 0.001 |action|^2;
/// terminated when unhealthy; an episode lasts 1000 steps of 4 physics steps.
class PlanarWalker {
 public:
  explicit PlanarWalker(const UprightLimits& limits) : limits_(&limits) {}

  Spec spec(const mjModel& model) const {
    require_size(model, 3, 1);
    return {.observation_size = static_cast<int>(model.nq - 1 + model.nv),
            .action = mujoco::action_box(model),
            .frame_skip = kFrameSkip,
            .max_episode_steps = 1000,
            .metrics = {"x_position", "z_distance_from_origin", "x_velocity", "reward_forward",
                        "reward_ctrl", "reward_survive"}};
  }

  void reset(mujoco::Simulation& sim) {
    add_uniform(sim.qpos(), kResetNoise, sim.rng());
    add_uniform(sim.qvel(), kResetNoise, sim.rng());
  }
  void after_reset(const mujoco::Simulation& sim) { gait_.start(sim.qpos()[0]); }

  Outcome after_step(const mujoco::Simulation& sim, std::span<const float> action) {
    const bool healthy = is_healthy(sim.qpos(), sim.qvel());
    gait_.move(sim.qpos()[0], sim.model().opt.timestep * kFrameSkip);
    gait_.charge(action, 1e-3f);
    gait_.reward_survive = healthy ? 1 : 0;
    return {.reward = static_cast<float>(gait_.reward()), .terminated = !healthy};
  }

  void observe(const mujoco::Simulation& sim, std::span<float> out) const {
    float* next = out.data();
    for (const double q : sim.qpos().subspan(1)) *next++ = static_cast<float>(q);
    for (const double v : sim.qvel()) *next++ = static_cast<float>(std::clamp(v, -10.0, 10.0));
  }

  void measure(const mujoco::Simulation& sim, std::span<float> out) const {
    out[0] = static_cast<float>(gait_.x);
    out[1] = static_cast<float>(sim.qpos()[1] - sim.model().qpos0[1]);
    out[2] = out[3] = static_cast<float>(gait_.x_velocity);
    out[4] = static_cast<float>(gait_.reward_ctrl);
    out[5] = static_cast<float>(gait_.reward_survive);
  }

  template <class Visitor>
  void state(Visitor& v) {
    gait_.state(v);
  }

 private:
  bool is_healthy(std::span<const double> qpos, std::span<const double> qvel) const noexcept {
    return limits_->height.contains(qpos[1]) && limits_->angle.contains(qpos[2]) &&
           limits_->state.contains(qpos.subspan(2)) && limits_->state.contains(qvel);
  }

  static constexpr int kFrameSkip = 4;
  static constexpr double kResetNoise = 5e-3;
  const UprightLimits* limits_;  // a constant of the program
  Gait gait_;
};
static_assert(mujoco::Task<PlanarWalker>);

}  // namespace canter::tasks
