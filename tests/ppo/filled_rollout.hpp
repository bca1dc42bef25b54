#pragma once
// A rollout as a policy would leave it in a made-up world: random observations, rewards that depend
// on the action, ends of both kinds.

#include <vector>

#include "canter/base/rng.hpp"
#include "canter/ppo/policy.hpp"
#include "canter/ppo/rollout.hpp"

struct FillOptions {
  std::uint64_t seed = 1;
  std::uint32_t first_id = 0;  // global id of environment 0
  std::uint32_t first_step = 0;
  double end_probability = 0.1;
};

inline void fill(canter::Rollout& rollout, canter::Policy& policy,
                 const FillOptions& options = {}) {
  const int n = rollout.observation_size(), action_size = policy.spec().action_size();
  const auto num_envs = static_cast<std::uint32_t>(rollout.num_envs());
  for (int t = 0; t <= rollout.horizon(); ++t) {
    const std::uint32_t step = options.first_step + static_cast<std::uint32_t>(t);
    for (std::uint32_t env = 0; env < num_envs; ++env) {
      canter::Rng rng(options.seed, canter::Stream::environment, options.first_id + env, step);
      const auto row = static_cast<std::size_t>(env);
      for (int k = 0; k < n; ++k)
        rollout.row(rollout.observations, t,
                    n)[row * static_cast<std::size_t>(n) + static_cast<std::size_t>(k)] =
            float(rng.normal());
    }
    if (t == rollout.horizon()) break;
    policy.act({.observations = rollout.row(rollout.observations, t, n),
                .seed = options.seed,
                .first_id = options.first_id,
                .step = step},
               {.env_actions = rollout.row(rollout.env_actions, 0, action_size),
                .actions = rollout.row(rollout.actions, t, action_size),
                .log_probs = rollout.row(rollout.log_probs, t),
                .values = rollout.row(rollout.values, t)});
    for (std::uint32_t env = 0; env < num_envs; ++env) {
      canter::Rng rng(options.seed + 1, canter::Stream::environment, options.first_id + env, step);
      const auto i = static_cast<std::size_t>(t) * num_envs + env;
      const float action = rollout.actions[i * static_cast<std::size_t>(action_size)];
      rollout.rewards[i] = 1 - (action - 0.5f) * (action - 0.5f) + float(rng.normal(0, 0.1));
      rollout.terminated[i] = rng.uniform() < options.end_probability;
      rollout.truncated[i] = rng.uniform() < options.end_probability;
      for (int k = 0; k < n; ++k)
        rollout
            .final_observations[env * static_cast<std::size_t>(n) + static_cast<std::size_t>(k)] =
            float(rng.normal());
    }
    rollout.evaluate_final_observations(t, policy);
  }
  policy.value(rollout.row(rollout.observations, rollout.horizon(), n),
               rollout.row(rollout.values, rollout.horizon()));
}
