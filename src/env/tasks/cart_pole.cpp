// CartPole-v1: a pole balanced on a cart that is pushed left or right.
// Definition: gymnasium.envs.classic_control.cartpole (Gymnasium 1.4), after Barto, Sutton and
// Anderson, "Neuronlike adaptive elements that can solve difficult learning control problems",
// 1983.

#include <cmath>
#include <limits>
#include <numbers>

#include "builtin.hpp"
#include "canter/env/environment.hpp"

namespace canter::tasks {
namespace {

/// observation float[4] = (x [m], v [m/s], theta [rad], omega [rad/s]); action 0 pushes left, 1
/// right; reward 1 per step; terminated beyond 2.4 m or 12 degrees; 500 steps of 0.02 s.
class CartPole {
 public:
  Spec spec() const {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    // twice the limits, so that the observation that ends an episode is inside
    constexpr auto x = static_cast<float>(2 * kMaxPosition),
                   theta = static_cast<float>(2 * kMaxAngle);
    return {.observation_size = 4,
            .action = Discrete{.count = 2},
            .max_episode_steps = 500,
            .observation_lows = {-x, -infinity, -theta, -infinity},
            .observation_highs = {x, infinity, theta, infinity},
            .step_seconds = kStep};
  }

  void reset(Rng& rng) {
    for (double* value : {&x_, &v_, &theta_, &omega_}) *value = rng.uniform(-0.05, 0.05);
  }

  Outcome step(std::span<const float> action, Rng&) {
    const double force = action[0] == 1.0f ? kForce : -kForce;
    const double cosine = std::cos(theta_), sine = std::sin(theta_);

    // accelerations of pole and cart; the products are grouped as Gymnasium does
    const double push = (force + kPoleMoment * (omega_ * omega_) * sine) / kTotalMass;
    const double pole = (kGravity * sine - cosine * push) /
                        (kHalfLength * (4.0 / 3.0 - kPoleMass * (cosine * cosine) / kTotalMass));
    const double cart = push - kPoleMoment * pole * cosine / kTotalMass;

    // explicit Euler: positions move with the old velocities
    x_ = x_ + kStep * v_;
    v_ = v_ + kStep * cart;
    theta_ = theta_ + kStep * omega_;
    omega_ = omega_ + kStep * pole;
    const bool up = std::abs(x_) <= kMaxPosition && std::abs(theta_) <= kMaxAngle;
    return {.reward = 1, .terminated = !up};
  }

  void observe(std::span<float> out) const {
    out[0] = static_cast<float>(x_);
    out[1] = static_cast<float>(v_);
    out[2] = static_cast<float>(theta_);
    out[3] = static_cast<float>(omega_);
  }

  template <class Visitor>
  void state(Visitor& v) {
    v("x", x_);
    v("v", v_);
    v("theta", theta_);
    v("omega", omega_);
  }

 private:
  static constexpr double kGravity = 9.8;   // [m/s^2]
  static constexpr double kPoleMass = 0.1;  // [kg]
  static constexpr double kTotalMass = kPoleMass + 1.0;
  static constexpr double kHalfLength = 0.5;  // of the pole [m]
  static constexpr double kPoleMoment = kPoleMass * kHalfLength;
  static constexpr double kForce = 10.0;                                // [N]
  static constexpr double kStep = 0.02;                                 // [s]
  static constexpr double kMaxPosition = 2.4;                           // [m]
  static constexpr double kMaxAngle = 12 * 2 * std::numbers::pi / 360;  // [rad]
  double x_ = 0, v_ = 0, theta_ = 0, omega_ = 0;
};
static_assert(Environment<CartPole>);

}  // namespace

PoolPointer make_cart_pole(const PoolOptions& options) {
  return make_pool<CartPole>(options);
}

}  // namespace canter::tasks
