// On the robot: load a policy file and act, nothing else. Links canter::policy alone, which needs
// neither MuJoCo nor LibTorch nor oneTBB. Run quickstart first: it trains and writes the file.
#include <canter/base/error.hpp>
#include <canter/policy_file.hpp>
#include <cmath>
#include <iostream>

// stands for the robot: the cart and pole of Barto, Sutton and Anderson (1983), 50 steps per second
struct CartPole {
  float x = 0, v = 0, angle = 0.05f, spin = 0;  // [m, m/s, rad, rad/s]

  void push(bool right) {
    constexpr float kGravity = 9.8f, kCart = 1, kPole = 0.1f, kHalf = 0.5f, kForce = 10, dt = 0.02f;
    const float s = std::sin(angle), c = std::cos(angle), total = kCart + kPole;
    const float pull = ((right ? kForce : -kForce) + kPole * kHalf * spin * spin * s) / total;
    const float turn = (kGravity * s - c * pull) / (kHalf * (4.0f / 3.0f - kPole * c * c / total));
    const float acceleration = pull - kPole * kHalf * turn * c / total;
    x += dt * v, v += dt * acceleration, angle += dt * spin, spin += dt * turn;
  }
  bool upright() const { return std::abs(x) < 2.4f && std::abs(angle) < 0.21f; }
};

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "runs/quickstart/policy.safetensors";
  try {
    // architecture, weights, normaliser and bounds all come from the file
    const auto policy = canter::load_policy(path);
    if (policy->spec().observation_size != 4 || !policy->spec().is_discrete()) {
      std::cout << path << " is a valid policy, but not for the cart-pole\n";
      return 0;
    }
    CartPole robot;
    int steps = 0;
    for (; steps < 500 && robot.upright(); ++steps) {
      const float observation[] = {robot.x, robot.v, robot.angle, robot.spin};
      float action[1];
      policy->act({.observations = observation, .deterministic = true}, {.env_actions = action});
      robot.push(action[0] == 1);
    }
    std::cout << "balanced for " << steps << " of 500 steps\n";
    return steps > 200 ? 0 : 1;
  } catch (const canter::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
