#pragma once
// The two small runs that the trainer's tests train: CartPole in plain C++, and a MuJoCo task with
// a contact, so that warm starts matter.

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>

#include "canter/canter.hpp"
#include "checkpoint/scratch.hpp"

namespace canter::testing {

inline constexpr const char* kOneLegXml = R"(
<mujoco><option timestep="0.01"/>
  <worldbody>
    <geom type="plane" size="5 5 .1"/>
    <body pos="0 0 .6">
      <joint name="x" type="slide" axis="1 0 0" damping=".5"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      <joint name="pitch" type="hinge" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 -.2 0 0 .2" size=".08"/>
      <body pos="0 0 -.2">
        <joint name="leg" type="hinge" axis="0 1 0" range="-60 60" limited="true"/>
        <geom type="capsule" fromto="0 0 0 .05 0 -.3" size=".05"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="leg" gear="8" ctrlrange="-1 1" ctrllimited="true"/></actuator>
</mujoco>)";

/// Stay upright and move on; remembers where the step began.
class OneLeg {
 public:
  Spec spec(const mjModel&) const {
    return {.observation_size = 9,
            .action = Box{.size = 1, .low = -1, .high = 1},
            .frame_skip = 4,
            .max_episode_steps = 60};
  }
  void reset(mujoco::Simulation& sim) {
    for (double& q : sim.qpos()) q += sim.rng().uniform(-0.02, 0.02);
    for (double& v : sim.qvel()) v += 0.05 * sim.rng().normal();
    before_ = sim.qpos()[0];
  }
  Outcome after_step(const mujoco::Simulation& sim, std::span<const float> action) {
    const double moved = sim.qpos()[0] - before_;
    before_ = sim.qpos()[0];
    return {.reward = static_cast<float>(1 + 10 * moved) - 0.01f * action[0] * action[0],
            .terminated = std::abs(sim.qpos()[2]) > 0.7};
  }
  void observe(const mujoco::Simulation& sim, std::span<float> out) const {
    sim.copy_to(out.first(8), sim.qpos(), sim.qvel());
    out[8] = static_cast<float>(before_);
  }
  template <class Visitor>
  void state(Visitor& v) {
    v("before", before_);
  }

 private:
  double before_ = 0;
};

/// What a test may want to vary.
struct Variation {
  int num_threads = 1;
  int num_envs = 6;
  std::int64_t env_offset = 0;
  MlpPolicyOptions policy{.hidden = {16, 16}};
  TrainerOptions trainer{};
  std::shared_ptr<Communicator> communicator = Communicator::single();
};

/// Options of short iterations; truncations, terminations and normalisers all take part.
inline TrainerOptions short_iterations(std::string directory = "") {
  return {.ppo = {.horizon = 24, .num_epochs = 2, .num_minibatches = 3},
          .total_steps = 100'000,
          .seed = 3,
          .directory = std::move(directory),
          .save_interval_seconds = -1};
}

inline std::shared_ptr<EnvPool> make_small_pool(const std::string& name, const Variation& v) {
  const PoolOptions options{.num_envs = v.num_envs,
                            .seed = 11,
                            .env_offset = v.env_offset,
                            .num_threads = v.num_threads,
                            .num_shards = 2 * v.num_threads,
                            .max_episode_steps = 50};
  if (name == "one leg") return mujoco::make_pool<OneLeg>(mujoco::parse_model(kOneLegXml), options);
  return make_pool(name, options);
}

inline std::unique_ptr<Trainer> make_small_trainer(const std::string& name, const Variation& v) {
  auto pool = make_small_pool(name, v);
  auto policy = make_mlp_policy(pool->spec(), v.policy, 5);
  return std::make_unique<Trainer>(std::move(pool), std::move(policy), v.communicator, v.trainer);
}

inline void iterate(Trainer& trainer, int count) {
  for (int i = 0; i < count; ++i) trainer.iterate();
}

}  // namespace canter::testing
