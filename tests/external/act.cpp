// On the robot: a policy alone, without MuJoCo and oneTBB.
#include <canter/ppo/mlp_policy.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

int main() {
  const canter::Spec spec{.observation_size = 4,
                          .action = canter::Box{.size = 1, .low = -3, .high = 3}};
  auto policy = canter::make_mlp_policy(spec, {.hidden = {8}}, /*seed=*/7);
  const std::vector<float> observation{0.1f, 0.2f, 0.3f, 0.4f};
  std::vector<float> action(1, NAN);
  policy->act({.observations = observation, .deterministic = true}, {.env_actions = action});
  std::printf("action %g\n", static_cast<double>(action[0]));
  return std::isfinite(action[0]) ? 0 : 1;
}
