// A task of one's own over MuJoCo, stepped and trained.
#include <canter/canter.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

class Slider {
 public:
  canter::Spec spec(const mjModel&) const {
    return {.observation_size = 2,
            .action = canter::Box{.size = 1, .low = -1, .high = 1},
            .frame_skip = 2,
            .max_episode_steps = 50};
  }
  void reset(canter::mujoco::Simulation& sim) { sim.qpos()[0] = sim.rng().uniform(-1, 1); }
  canter::Outcome after_step(const canter::mujoco::Simulation& sim, std::span<const float>) {
    return {.reward = static_cast<float>(-std::abs(sim.qpos()[0]))};
  }
  void observe(const canter::mujoco::Simulation& sim, std::span<float> out) const {
    sim.copy_to(out, sim.qpos(), sim.qvel());
  }
};
static_assert(canter::mujoco::Task<Slider>);

int main(int count, char** arguments) {
  if (count != 3) return 2;
  auto model = canter::mujoco::load_model(arguments[1]);
  auto pool = canter::mujoco::make_pool<Slider>(model, {.num_envs = 8, .seed = 7});
  auto policy = canter::make_mlp_policy(pool->spec(), {.hidden = {8}}, 7);
  canter::Trainer trainer(pool, policy, canter::Communicator::from_environment(),
                          {.ppo = {.horizon = 16}, .directory = arguments[2]});
  for (int i = 0; i < 2; ++i) trainer.iterate();
  std::printf("%lld steps\n", static_cast<long long>(trainer.env_steps()));
  return trainer.env_steps() == 2 * 8 * 16 ? 0 : 1;
}
