// Train CartPole-v1 with PPO, watch it learn, evaluate the result. Takes a few seconds.
#include <canter/canter.hpp>
#include <iostream>

int main() {
  // 16 simulations stepped by all cores; the same seed gives the same bits on any number of them
  auto pool = canter::make_pool("CartPole-v1", {.num_envs = 16, .seed = 1});
  auto policy = canter::make_mlp_policy(pool->spec(), {.hidden = {64, 64}}, /*seed=*/1);

  canter::Trainer trainer(
      pool, policy, canter::Communicator::from_environment(),
      {.ppo = {.horizon = 64, .num_epochs = 10, .num_minibatches = 4, .learning_rate = 1e-3f},
       .total_steps = 100'000,
       .directory = "runs/quickstart"});

  // the newest checkpoint of an earlier start, if there is one
  if (trainer.resume()) std::cout << "resumed at step " << trainer.env_steps() << '\n';
  trainer.train([](const canter::Report& report) {
    if (report.iteration % 10 == 0) std::cout << report << '\n';
    return true;
  });

  auto fresh = canter::make_pool("CartPole-v1", {.num_envs = 16, .seed = 2});
  const canter::Evaluation result = canter::evaluate(*fresh, *policy, {.episodes = 64});
  std::cout << "return " << result.return_mean << " of 500, 95 % interval [" << result.return_low
            << ", " << result.return_high << "]\n"
            << "the policy is in runs/quickstart/policy.safetensors\n";
  return result.return_mean > 400 ? 0 : 1;
}
