// Your own simulator as a plain C++ class: no base class, no macro. Here a point mass on a line
// learns to come to rest at a goal. It takes a few seconds.

#include <canter/canter.hpp>
#include <cmath>
#include <iostream>

/// observation float[2] = (goal - x [m], v [m/s]); action float[1] = force [N].
class Reach {
 public:
  canter::Spec spec() const {
    return {.observation_size = 2,
            .action = canter::Box{.size = 1, .low = -1, .high = 1},
            .max_episode_steps = 50,
            .metrics = {"distance"},
            .step_seconds = kStep};
  }

  void reset(canter::Rng& rng) { goal_ = rng.uniform(-1, 1), x_ = v_ = 0; }

  canter::Outcome step(std::span<const float> action, canter::Rng&) {
    v_ += (2.0 * action[0] - 0.1 * v_) * kStep;
    x_ += v_ * kStep;
    // leaving the track ends the episode; the time limit is the pool's business
    return {.reward = static_cast<float>(-std::abs(goal_ - x_)), .terminated = std::abs(x_) > 3};
  }

  void observe(std::span<float> out) const {
    out[0] = static_cast<float>(goal_ - x_);
    out[1] = static_cast<float>(v_);
  }

  void measure(std::span<float> out) const { out[0] = static_cast<float>(std::abs(goal_ - x_)); }

  // what a checkpoint must hold of it
  template <class Visitor>
  void state(Visitor& v) {
    v("x", x_), v("v", v_), v("goal", goal_);
  }

 private:
  static constexpr double kStep = 0.1;  // [s]
  double x_ = 0, v_ = 0, goal_ = 0;
};

int main() {
  auto pool = canter::make_pool<Reach>({.num_envs = 32, .seed = 1});
  auto policy = canter::make_mlp_policy(pool->spec(), {.hidden = {32, 32}}, /*seed=*/1);
  canter::Trainer trainer(pool, policy, canter::Communicator::single(),
                          {.ppo = {.horizon = 64, .num_minibatches = 16}, .total_steps = 100'000});
  double last = 0;
  trainer.train([&](const canter::Report& report) {
    last = report.episode_return_mean;
    if (report.iteration % 10 == 0) std::cout << report << '\n';
    return true;
  });
  return last > -10 ? 0 : 1;  // an untrained policy reaches about -40
}
