// Pendulum-v1: swing a pendulum up and hold it there with little torque.
// Definition: gymnasium.envs.classic_control.pendulum (Gymnasium 1.4).

#include <algorithm>
#include <cmath>
#include <numbers>

#include "builtin.hpp"
#include "canter/env/environment.hpp"

namespace canter::tasks {
namespace {

/// observation float[3] = (cos theta, sin theta, omega [rad/s]), theta = 0 upright; action float[1]
/// = torque in [-2, 2] N m; reward -(theta^2 + 0.1 omega^2 + 0.001 torque^2) of the state before
/// the step; never terminates; an episode lasts 200 steps of 0.05 s.
class Pendulum {
 public:
  Spec spec() const {
    constexpr auto speed = static_cast<float>(kMaxSpeed);
    return {.observation_size = 3,
            .action = Box{.size = 1, .low = -kMaxTorque, .high = kMaxTorque},
            .max_episode_steps = 200,
            .observation_lows = {-1, -1, -speed},
            .observation_highs = {1, 1, speed},
            .step_seconds = kStep};
  }

  void reset(Rng& rng) {
    theta_ = rng.uniform(-std::numbers::pi, std::numbers::pi);
    omega_ = rng.uniform(-1, 1);
  }

  Outcome step(std::span<const float> action, Rng&) {
    // the torque and its products stay in float32, as they do under NumPy 2
    const float torque = std::clamp(action[0], -kMaxTorque, kMaxTorque);
    const double angle = normalized(theta_);
    const double cost =
        angle * angle + 0.1 * (omega_ * omega_) + static_cast<double>(0.001f * (torque * torque));

    // semi-implicit Euler for a rod of 1 kg and 1 m
    const double push = 3 * kGravity / 2 * std::sin(theta_) + static_cast<double>(3.0f * torque);
    omega_ = std::clamp(omega_ + push * kStep, -kMaxSpeed, kMaxSpeed);
    theta_ = theta_ + omega_ * kStep;
    return {.reward = static_cast<float>(-cost), .terminated = false};
  }

  void observe(std::span<float> out) const {
    out[0] = static_cast<float>(std::cos(theta_));
    out[1] = static_cast<float>(std::sin(theta_));
    out[2] = static_cast<float>(omega_);
  }

  template <class Visitor>
  void state(Visitor& v) {
    v("theta", theta_);
    v("omega", omega_);
  }

 private:
  // the same angle in [-pi, pi): Python's modulo has the sign of the divisor
  static double normalized(double angle) noexcept {
    constexpr double turn = 2 * std::numbers::pi;
    const double rest = std::fmod(angle + std::numbers::pi, turn);
    return (rest < 0 ? rest + turn : rest) - std::numbers::pi;
  }

  static constexpr double kGravity = 10.0;   // [m/s^2]
  static constexpr double kStep = 0.05;      // [s]
  static constexpr double kMaxSpeed = 8.0;   // [rad/s]
  static constexpr float kMaxTorque = 2.0f;  // [N m]
  double theta_ = 0, omega_ = 0;
};
static_assert(Environment<Pendulum>);

}  // namespace

PoolPointer make_pendulum(const PoolOptions& options) {
  return make_pool<Pendulum>(options);
}

}  // namespace canter::tasks
