// HalfCheetah-v5: a planar cheetah that runs as fast as it can.
// Definition: gymnasium.envs.mujoco.half_cheetah_v5 (Gymnasium 1.4).

#include "builtin.hpp"
#include "canter/env/mujoco/action_box.hpp"
#include "canter/env/mujoco/task.hpp"
#include "locomotion.hpp"

namespace canter::tasks {
namespace {

/// observation float[17] = qpos[1:9], qvel[9]; action float[6] in [-1, 1]; reward dx/dt - 0.1
/// |a|^2; never terminates; an episode lasts 1000 steps of 5 x 0.01 s.
class HalfCheetah {
 public:
  Spec spec(const mjModel& model) const {
    require_size(model, 1, 1);
    return {.observation_size = static_cast<int>(model.nq - 1 + model.nv),
            .action = mujoco::action_box(model),
            .frame_skip = kFrameSkip,
            .max_episode_steps = 1000,
            .metrics = {"x_position", "x_velocity", "reward_forward", "reward_ctrl"}};
  }

  void reset(mujoco::Simulation& sim) {
    add_uniform(sim.qpos(), kResetNoise, sim.rng());
    add_normal(sim.qvel(), kResetNoise, sim.rng());
  }
  void after_reset(const mujoco::Simulation& sim) { gait_.start(sim.qpos()[0]); }

  Outcome after_step(const mujoco::Simulation& sim, std::span<const float> action) {
    gait_.move(sim.qpos()[0], sim.model().opt.timestep * kFrameSkip);
    gait_.charge(action, 0.1f);
    return {.reward = static_cast<float>(gait_.reward()), .terminated = false};
  }

  void observe(const mujoco::Simulation& sim, std::span<float> out) const {
    sim.copy_to(out, sim.qpos().subspan(1), sim.qvel());
  }

  void measure(const mujoco::Simulation&, std::span<float> out) const {
    out[0] = static_cast<float>(gait_.x);
    out[1] = out[2] = static_cast<float>(gait_.x_velocity);
    out[3] = static_cast<float>(gait_.reward_ctrl);
  }

  template <class Visitor>
  void state(Visitor& v) {
    gait_.state(v);
  }

 private:
  static constexpr int kFrameSkip = 5;
  static constexpr double kResetNoise = 0.1;
  Gait gait_;
};
static_assert(mujoco::Task<HalfCheetah>);

}  // namespace

PoolPointer make_half_cheetah(const PoolOptions& options) {
  return mujoco::make_pool<HalfCheetah>(mujoco::load_model(options.model_path), options);
}

}  // namespace canter::tasks
