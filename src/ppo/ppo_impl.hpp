#pragma once
// What a Ppo consists of; shared by ppo.cpp (the update) and ppo_state.cpp (everything else).

#include <memory>
#include <vector>

#include "canter/ppo/ppo.hpp"
#include "ppo/adam.hpp"
#include "ppo/minibatches.hpp"
#include "ppo/reward_scaler.hpp"

namespace canter {

struct Ppo::Impl {
  Impl(PpoOptions options, std::int64_t total_steps, std::uint64_t seed, const Policy& policy);

  UpdateReport update(Rollout& rollout, Policy& policy, Communicator& communicator,
                      std::int64_t env_steps);

  // checks that all belong together; sizes the buffers at the first call
  void begin(Rollout& rollout, Policy& policy, Communicator& communicator);
  bool is_usable(const Rollout& rollout, Communicator& communicator, UpdateReport& report);
  AdvantageInput scale_rewards(const Rollout& rollout, Policy& policy, Communicator& communicator);
  void estimate_advantages(const AdvantageInput& rows, Rollout& rollout) const;
  LossStatistics run_epochs(const AdvantageInput& rows, Rollout& rollout, Policy& policy,
                            Communicator& communicator, UpdateReport& report);
  LossStatistics learn(int epoch, int minibatch, const Rollout& rollout, Policy& policy,
                       Communicator& communicator, UpdateReport& report);

  PpoOptions options;
  std::int64_t total_steps;
  std::uint64_t seed;
  std::shared_ptr<Threads> threads;

  // state of the run
  detail::Adam adam;
  detail::RewardScaler reward_scaler;
  std::int64_t iteration = 0;  // updates so far: which permutations come next

  // working memory
  detail::Minibatches minibatches;
  std::vector<float> scaled_rewards;  // float[horizon, num_envs]
  RunningMoments observation_delta;
  std::vector<double> gathered;
  bool has_begun = false;
  bool refused_rollout = false;  // the latest update found its rollout unusable
};

}  // namespace canter
