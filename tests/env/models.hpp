#pragma once
// Small models and tasks of the env tests.

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "canter/env/environment.hpp"
#include "canter/env/mujoco/task.hpp"

namespace canter::testing {

/// Two legs with motors under a beam that falls over: contacts, limits, episodes of varied length.
inline std::string runner_xml(const std::string& option = "integrator=\"RK4\"") {
  return R"(<mujoco><option timestep="0.005" )" + option + R"(/><worldbody>
    <geom type="plane" size="5 5 .1"/>
    <body name="beam" pos="0 0 .5">
      <joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
      <joint name="turn" type="hinge" axis="0 1 0"/>
      <geom type="capsule" fromto="-.2 0 0 .2 0 0" size=".06"/>
      <body pos="-.2 0 0"><joint name="hip" type="hinge" axis="0 1 0" range="-60 60" limited="true"/>
        <geom type="capsule" fromto="0 0 0 0 0 -.4" size=".05"/></body>
      <body pos=".2 0 0"><joint name="knee" type="hinge" axis="0 1 0" range="-60 60" limited="true"/>
        <geom type="capsule" fromto="0 0 0 0 0 -.4" size=".05"/></body>
    </body></worldbody>
    <actuator><motor joint="hip" gear="20"/><motor joint="knee" gear="20"/></actuator></mujoco>)";
}

/// Runs as far as it can until it tips over; reads state, derived positions and contact forces.
class Runner {
 public:
  static constexpr int kBeam = 1;

  Spec spec(const mjModel&) const {
    return {.observation_size = 12,
            .action = Box{.size = 2, .low = -1, .high = 1},
            .frame_skip = 4,
            .max_episode_steps = 40,
            .metrics = {"height", "speed"},
            .post_constraint = true};
  }
  void reset(mujoco::Simulation& sim) {
    for (double& q : sim.qpos()) q += sim.rng().uniform(-0.05, 0.05);
    for (double& v : sim.qvel()) v += 0.1 * sim.rng().normal();
  }
  void after_reset(const mujoco::Simulation& sim) {
    before_ = sim.xpos(kBeam)[0];
    speed_ = 0;
  }
  Outcome after_step(const mujoco::Simulation& sim, std::span<const float> action) {
    speed_ = sim.xpos(kBeam)[0] - before_;
    before_ += speed_;
    return {.reward = static_cast<float>(speed_) - 0.1f * action[0] * action[0],
            .terminated = std::abs(sim.qpos()[2]) > 0.6};
  }
  void observe(const mujoco::Simulation& sim, std::span<float> out) const {
    const double touch = sim.cfrc_ext()[6 * kBeam + 5];
    sim.copy_to(out, sim.qpos().subspan(1), sim.qvel(), sim.xpos(kBeam).subspan(2),
                std::array{touch}, std::array{speed_});
  }
  void measure(const mujoco::Simulation& sim, std::span<float> out) const {
    out[0] = static_cast<float>(sim.qpos()[1]);
    out[1] = static_cast<float>(speed_);
  }
  template <class Visitor>
  void state(Visitor& v) {
    v("before", before_);
    v("speed", speed_);
  }

 private:
  double before_ = 0, speed_ = 0;
};
static_assert(mujoco::Task<Runner>);

/// A mass on a rail; action 1e12-fold: pushes it out of MuJoCo's range at once when it wants to.
inline const char* const kRailXml = R"(<mujoco><option timestep="0.01"/><worldbody>
  <body><joint name="j" type="slide"/><geom size=".1" contype="0" conaffinity="0"/></body></worldbody>
  <actuator><motor joint="j" gear="1e12"/></actuator></mujoco>)";

/// Counts its steps; episodes end when the action says so.
class Counter {
 public:
  Spec spec() const {
    return {.observation_size = 2, .action = Box{.size = 1}, .max_episode_steps = 4};
  }
  void reset(Rng& rng) {
    count_ = 0;
    start_ = rng.uniform();
  }
  Outcome step(std::span<const float> action, Rng&) {
    ++count_;
    return {.reward = action[0], .terminated = action[0] > 5};
  }
  void observe(std::span<float> out) const {
    out[0] = static_cast<float>(count_);
    out[1] = static_cast<float>(start_);
  }
  template <class Visitor>
  void state(Visitor& v) {
    v("count", count_);
    v("start", start_);
  }

 private:
  int count_ = 0;
  double start_ = 0;
};
static_assert(Environment<Counter>);

/// Everything that steps of a pool gave, as bytes: equal runs compare equal by memcmp.
class Record {
 public:
  void add(StepBuffers& step) {
    append(step.observations), append(step.rewards), append(step.terminated);
    append(step.truncated), append(step.final_observations), append(step.diverged);
    append(step.episode_returns), append(step.episode_lengths), append(step.metrics);
  }
  template <class T>
  void append(const std::vector<T>& numbers) {
    const auto bytes = std::as_bytes(std::span<const T>(numbers));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  bool operator==(const Record& other) const {
    return bytes_.size() == other.bytes_.size() &&
           std::memcmp(bytes_.data(), other.bytes_.data(), bytes_.size()) == 0;
  }

 private:
  std::vector<std::byte> bytes_;
};

/// Actions of step t, from a stream of their own: the same for every pool of this size.
inline std::vector<float> random_actions(const EnvPool& pool, int t) {
  std::vector<float> actions(static_cast<std::size_t>(pool.num_envs() * pool.spec().action_size()));
  Rng rng(12345, Stream::action, 0, static_cast<std::uint32_t>(t));
  for (float& a : actions) a = static_cast<float>(rng.uniform(-1, 1));
  return actions;
}

/// Steps [first, last) of a pool, recorded.
inline Record run(EnvPool& pool, StepBuffers& step, int first, int last) {
  Record record;
  // rows that are written only when an episode ends start equal
  step = StepBuffers(pool.num_envs(), pool.spec());
  for (int t = first; t < last; ++t) {
    pool.step(random_actions(pool, t), step.view());
    record.add(step);
  }
  return record;
}

/// A new pool's reset and first steps, recorded.
inline Record run_from_start(EnvPool& pool, int num_steps) {
  StepBuffers step(pool.num_envs(), pool.spec());
  pool.reset(step.view());
  Record record;
  record.add(step);
  for (int t = 0; t < num_steps; ++t) {
    pool.step(random_actions(pool, t), step.view());
    record.add(step);
  }
  return record;
}

/// Row i of an array with `width` numbers per environment.
template <class T>
std::vector<T> row(const std::vector<T>& array, int i, int width) {
  const auto first = array.begin() + i * width;
  return std::vector<T>(first, first + width);
}

/// twelve boxes high up; a large action drops them onto the floor, more contacts than fit the
/// memory
inline std::string boxes_xml(const std::string& memory) {
  std::string xml =
      "<mujoco><size memory=\"" + memory + "\"/><worldbody><geom type=\"plane\" size=\"5 5 .1\"/>";
  for (int k = 0; k < 12; ++k)
    xml += "<body pos=\"" + std::to_string(k) +
           " 0 100\"><freejoint/><geom type=\"box\" size=\".1 .1 .1\"/></body>";
  return xml + R"(<body><joint name="j" type="slide"/>
    <geom size=".01" contype="0" conaffinity="0"/></body></worldbody>
    <actuator><motor joint="j"/></actuator></mujoco>)";
}

class Boxes {
 public:
  Spec spec(const mjModel&) const {
    return {
        .observation_size = 3, .action = Box{.size = 1}, .frame_skip = 5, .max_episode_steps = 6};
  }
  void reset(mujoco::Simulation& sim) { sim.qpos()[2] += sim.rng().uniform(); }
  void before_step(mujoco::Simulation& sim, std::span<const float> action) {
    if (action[0] > 5)
      for (std::size_t k = 0; k < 12; ++k) sim.qpos()[7 * k + 2] = 0.05;
    sim.ctrl()[0] = static_cast<double>(action[0]);
  }
  Outcome after_step(const mujoco::Simulation&, std::span<const float>) { return {.reward = 1}; }
  void observe(const mujoco::Simulation& sim, std::span<float> out) const {
    sim.copy_to(out, sim.qpos().subspan(2, 1), sim.qvel().subspan(2, 1), sim.qpos().last(1));
  }
};

/// force grows by the action in every substep, so that the action chooses when it is too much;
/// started from a velocity, the position leaves MuJoCo's range
inline const char* const kRampXml = R"(<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody>
  <body><joint name="j" type="slide"/><geom type="box" size=".05 .05 .05" mass="1" contype="0"
  conaffinity="0"/></body></worldbody>
  <actuator><general joint="j" dyntype="integrator" gear="1e12"/></actuator></mujoco>)";

class Ramp {
 public:
  Spec spec(const mjModel&) const {
    return {.observation_size = 2, .action = Box{.size = 1}, .frame_skip = 5};
  }
  void reset(mujoco::Simulation& sim) { sim.qpos()[0] = sim.rng().uniform(); }
  Outcome after_step(const mujoco::Simulation& sim, std::span<const float>) {
    return {.reward = static_cast<float>(sim.qpos()[0])};
  }
  void observe(const mujoco::Simulation& sim, std::span<float> out) const {
    sim.copy_to(out, sim.qpos(), sim.qvel());
  }
};

/// rows of all environments but one
inline Record others(StepBuffers& step, int except, int observation_size) {
  Record record;
  const int n = static_cast<int>(step.rewards.size());
  for (int i = 0; i < n; ++i) {
    if (i == except) continue;
    record.append(row(step.observations, i, observation_size));
    record.append(row(step.rewards, i, 1));
    record.append(row(step.terminated, i, 1));
    record.append(row(step.truncated, i, 1));
    record.append(row(step.diverged, i, 1));
    record.append(row(step.metrics, i, static_cast<int>(step.metrics.size()) / n));
  }
  return record;
}

inline std::vector<float> actions_with(int n, int bad, float value) {
  std::vector<float> actions;
  for (int i = 0; i < n; ++i) actions.push_back(i == bad ? value : 0.1f * static_cast<float>(i));
  return actions;
}

}  // namespace canter::testing
