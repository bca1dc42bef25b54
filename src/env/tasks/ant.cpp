// Ant-v5: a four-legged robot that walks forward without turning over.
// Definition: gymnasium.envs.mujoco.ant_v5 (Gymnasium 1.4).

#include <algorithm>
#include <array>
#include <cmath>

#include "builtin.hpp"
#include "canter/env/mujoco/action_box.hpp"
#include "canter/env/mujoco/task.hpp"
#include "locomotion.hpp"

namespace canter::tasks {
namespace {

/// observation float[105] = qpos[2:15], qvel[14], contact forces cfrc_ext[1:14] clipped to +-1;
/// action float[8] in [-1, 1]; reward d(torso x)/dt + 1 while healthy - 0.5 |a|^2 - 0.0005 |contact
/// forces|^2; terminated when unhealthy; 1000 steps of 5 x 0.01 s.
class Ant {
 public:
  Spec spec(const mjModel& model) const {
    require_size(model, 3, 2);
    return {
        .observation_size = static_cast<int>(model.nq - 2 + model.nv + 6 * (model.nbody - 1)),
        .action = mujoco::action_box(model),
        .frame_skip = kFrameSkip,
        .max_episode_steps = 1000,
        .metrics = {"x_position", "y_position", "distance_from_origin", "x_velocity", "y_velocity",
                    "reward_forward", "reward_ctrl", "reward_contact", "reward_survive"},
        .post_constraint = true};
  }

  void reset(mujoco::Simulation& sim) {
    add_uniform(sim.qpos(), kResetNoise, sim.rng());
    add_normal(sim.qvel(), kResetNoise, sim.rng());
  }
  void after_reset(const mujoco::Simulation& sim) {
    gait_.start(torso(sim)[0]);
    y_ = torso(sim)[1];
    y_velocity_ = reward_contact_ = 0;
  }

  Outcome after_step(const mujoco::Simulation& sim, std::span<const float> action) {
    const bool healthy = is_healthy(sim);
    // xpos describes the start of the last physics step, before and after alike: so does
    // Gymnasium's
    const double seconds = sim.model().opt.timestep * kFrameSkip;
    gait_.move(torso(sim)[0], seconds);
    y_velocity_ = (torso(sim)[1] - y_) / seconds;
    y_ = torso(sim)[1];
    gait_.charge(action, 0.5f);
    gait_.reward_survive = healthy ? 1 : 0;
    reward_contact_ = -contact_cost(sim);
    return {.reward = static_cast<float>(reward()), .terminated = !healthy};
  }

  void observe(const mujoco::Simulation& sim, std::span<float> out) const {
    float* next = out.data();
    for (const double x : sim.qpos().subspan(2)) *next++ = static_cast<float>(x);
    for (const double v : sim.qvel()) *next++ = static_cast<float>(v);
    // the world body's row is left out
    for (const double f : sim.cfrc_ext().subspan(6)) *next++ = static_cast<float>(clipped(f));
  }

  void measure(const mujoco::Simulation& sim, std::span<float> out) const {
    const double x = sim.qpos()[0], y = sim.qpos()[1];
    const std::array<double, 9> values{x,
                                       y,
                                       std::sqrt(x * x + y * y),
                                       gait_.x_velocity,
                                       y_velocity_,
                                       gait_.x_velocity,
                                       gait_.reward_ctrl,
                                       reward_contact_,
                                       gait_.reward_survive};
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = static_cast<float>(values[i]);
  }

  template <class Visitor>
  void state(Visitor& v) {
    gait_.state(v);
    v("y", y_);
  }

 private:
  static double clipped(double force) noexcept { return std::clamp(force, -1.0, 1.0); }
  static std::span<const double> torso(const mujoco::Simulation& sim) noexcept {
    return sim.xpos(kTorso);
  }

  // of all bodies, the world included
  static double contact_cost(const mujoco::Simulation& sim) noexcept {
    return 5e-4 * sum_of_squares(sim.cfrc_ext(), clipped);
  }

  // the sum in Gymnasium's order: (forward + survive) - (ctrl + contact)
  double reward() const noexcept {
    return (gait_.x_velocity + gait_.reward_survive) + (gait_.reward_ctrl + reward_contact_);
  }

  static bool is_healthy(const mujoco::Simulation& sim) noexcept {
    const double height = sim.qpos()[2];
    return kFinite.contains(sim.qpos()) && kFinite.contains(sim.qvel()) && 0.2 <= height &&
           height <= 1.0;
  }

  static constexpr int kFrameSkip = 5;
  static constexpr double kResetNoise = 0.1;
  static constexpr int kTorso = 1;  // body id
  static constexpr OpenRange kFinite{};
  Gait gait_;
  double y_ = 0, y_velocity_ = 0, reward_contact_ = 0;
};
static_assert(mujoco::Task<Ant>);

}  // namespace

PoolPointer make_ant(const PoolOptions& options) {
  return mujoco::make_pool<Ant>(mujoco::load_model(options.model_path), options);
}

}  // namespace canter::tasks
