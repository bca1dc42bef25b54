// InvertedPendulum-v5: a pole balanced on a cart by pushing the cart.
// Definition: gymnasium.envs.mujoco.inverted_pendulum_v5 (Gymnasium 1.4).

#include <cmath>

#include "builtin.hpp"
#include "canter/env/mujoco/action_box.hpp"
#include "canter/env/mujoco/task.hpp"
#include "locomotion.hpp"

namespace canter::tasks {
namespace {

/// observation float[4] = cart position [m], pole angle [rad] and their rates; action float[1] in
/// [-3, 3]; reward 1 until the pole leaves +-0.2 rad, which terminates; 1000 steps of 2 x 0.02 s.
class InvertedPendulum {
 public:
  Spec spec(const mjModel& model) const {
    require_size(model, 2, 1);
    return {.observation_size = static_cast<int>(model.nq + model.nv),
            .action = mujoco::action_box(model),
            .frame_skip = 2,
            .max_episode_steps = 1000,
            .metrics = {"reward_survive"}};
  }

  void reset(mujoco::Simulation& sim) {
    add_uniform(sim.qpos(), 0.01, sim.rng());
    add_uniform(sim.qvel(), 0.01, sim.rng());
  }

  Outcome after_step(const mujoco::Simulation& sim, std::span<const float>) {
    const bool upright = is_upright(sim);
    return {.reward = upright ? 1.0f : 0.0f, .terminated = !upright};
  }

  void observe(const mujoco::Simulation& sim, std::span<float> out) const {
    sim.copy_to(out, sim.qpos(), sim.qvel());
  }

  void measure(const mujoco::Simulation& sim, std::span<float> out) const {
    out[0] = is_upright(sim) ? 1.0f : 0.0f;
  }

 private:
  static bool is_upright(const mujoco::Simulation& sim) noexcept {
    constexpr OpenRange finite{};
    return std::abs(sim.qpos()[1]) <= 0.2 && finite.contains(sim.qpos()) &&
           finite.contains(sim.qvel());
  }
};
static_assert(mujoco::Task<InvertedPendulum>);

}  // namespace

PoolPointer make_inverted_pendulum(const PoolOptions& options) {
  return mujoco::make_pool<InvertedPendulum>(mujoco::load_model(options.model_path), options);
}

}  // namespace canter::tasks
