#pragma once
// A trainer on HalfCheetah-v5 as the end-to-end rows train it: 2048 samples per iteration,
// 10 epochs of 32 minibatches, 2x64 tanh, observations and rewards normalised.

#include <memory>
#include <string>

#include "canter/env/pool.hpp"
#include "canter/env/registry.hpp"
#include "canter/ppo/mlp_policy.hpp"
#include "canter/trainer.hpp"

namespace bench {

constexpr int kNumEnvs = 64, kHorizon = 32, kNumSamples = kNumEnvs * kHorizon;

struct TrainedPool {
  TrainedPool(const std::string& folder, int num_threads, int num_envs = kNumEnvs)
      : pool(canter::make_pool("HalfCheetah-v5", {.num_envs = num_envs,
                                                  .seed = 7,
                                                  .num_threads = num_threads,
                                                  .model_path = folder + "/half_cheetah.xml"})),
        policy(canter::make_mlp_policy(pool->spec(), {}, 7)) {
    trainer =
        std::make_unique<canter::Trainer>(pool, policy, canter::Communicator::single(),
                                          canter::TrainerOptions{.ppo = {.horizon = kHorizon},
                                                                 .total_steps = 1'000'000'000,
                                                                 .save_interval_seconds = -1});
  }

  std::shared_ptr<canter::EnvPool> pool;
  std::shared_ptr<canter::Policy> policy;
  std::unique_ptr<canter::Trainer> trainer;
};

}  // namespace bench
