// Your own robot: an MJCF model (here in the program itself) and a task that says what its numbers
// mean. The pool does the physics, episodes, seeds and threads. It takes a few seconds.

#include <canter/canter.hpp>
#include <cmath>
#include <iostream>

constexpr const char* kModel = R"(
<mujoco model="arm">
  <option timestep="0.01" integrator="implicitfast"/>
  <default><joint axis="0 0 1" damping="0.1" limited="true" range="-160 160"/></default>
  <worldbody>
    <body name="upper">
      <joint name="shoulder"/> <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
      <body name="lower" pos="0.3 0 0">
        <joint name="elbow"/> <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
        <site name="tip" pos="0.3 0 0"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="shoulder" gear="2" ctrlrange="-1 1"/> <motor joint="elbow" ctrlrange="-1 1"/>
  </actuator>
</mujoco>)";

/// Bring the tip of a two-link arm to a random goal. observation float[8] = (cos q, sin q, qvel,
/// goal - tip [m]); action float[2] = torques; reward -distance - 0.01 |action|^2.
class ReachWithArm {
 public:
  explicit ReachWithArm(const mjModel& model)
      : tip_(canter::mujoco::id_of(model, mjOBJ_SITE, "tip")) {}

  canter::Spec spec(const mjModel& model) const {
    return {.observation_size = 8,
            .action = canter::mujoco::action_box(model),
            .frame_skip = 4,
            .max_episode_steps = 100,
            .metrics = {"distance"}};
  }

  void reset(canter::mujoco::Simulation& sim) {
    for (double& q : sim.qpos()) q += sim.rng().uniform(-0.5, 0.5);
    const double angle = sim.rng().uniform(-2.5, 2.5), radius = sim.rng().uniform(0.2, 0.5);
    goal_ = {radius * std::cos(angle), radius * std::sin(angle)};
  }

  canter::Outcome after_step(const canter::mujoco::Simulation& sim, std::span<const float> action) {
    const double effort = action[0] * action[0] + action[1] * action[1];
    return {.reward = static_cast<float>(-distance(sim) - 0.01 * effort)};
  }

  void observe(const canter::mujoco::Simulation& sim, std::span<float> out) const {
    const auto q = sim.qpos(), v = sim.qvel(), tip = sim.site_xpos(tip_);
    const std::array<double, 8> row{
        std::cos(q[0]), std::cos(q[1]), std::sin(q[0]),    std::sin(q[1]),
        v[0],           v[1],           goal_[0] - tip[0], goal_[1] - tip[1]};
    sim.copy_to(out, row);
  }

  void measure(const canter::mujoco::Simulation& sim, std::span<float> out) const {
    out[0] = static_cast<float>(distance(sim));
  }

  // what a checkpoint must hold besides the simulation; tip_ never changes
  template <class Visitor>
  void state(Visitor& v) {
    v("goal", goal_);
  }

 private:
  double distance(const canter::mujoco::Simulation& sim) const {
    const auto tip = sim.site_xpos(tip_);
    return std::hypot(goal_[0] - tip[0], goal_[1] - tip[1]);
  }

  int tip_;
  std::array<double, 2> goal_{};
};
static_assert(canter::mujoco::Task<ReachWithArm>);

int main() {
  const auto model = canter::mujoco::parse_model(kModel);
  auto pool = canter::mujoco::make_pool<ReachWithArm>(model, {.num_envs = 32, .seed = 1});
  auto policy = canter::make_mlp_policy(pool->spec(), {.hidden = {64, 64}}, /*seed=*/1);
  canter::Trainer trainer(pool, policy, canter::Communicator::single(),
                          {.ppo = {.horizon = 64, .num_minibatches = 16}, .total_steps = 150'000});
  double last = 0;
  trainer.train([&](const canter::Report& report) {
    last = report.episode_return_mean;
    if (report.iteration % 10 == 0) std::cout << report << '\n';
    return true;
  });
  return last > -20 ? 0 : 1;  // an untrained policy reaches about -55
}
