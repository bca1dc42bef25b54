#pragma once
// A learner on a rollout of random numbers, sized like HalfCheetah-v5: for measuring updates.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "canter/base/rng.hpp"
#include "canter/base/spec.hpp"
#include "canter/ppo/mlp_policy.hpp"
#include "canter/ppo/ppo.hpp"
#include "canter/ppo/rollout.hpp"
#include "canter/sync/communicator.hpp"

namespace bench {

constexpr int kObservationSize = 17, kActionSize = 6;

inline canter::Spec learner_spec() {
  return {.observation_size = kObservationSize,
          .action = canter::Box{.size = kActionSize, .low = -1, .high = 1}};
}

/// Standard normal floats.
inline std::vector<float> normals(int size, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(size));
  canter::Rng rng(seed, canter::Stream::environment, 0, 0);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

/// Policy, rollout and Ppo of 64 environments; networks of 2x64 tanh.
class Learner {
 public:
  static constexpr int kNumEnvs = 64, kNumEpochs = 10;

  explicit Learner(int minibatch_size, int num_epochs = kNumEpochs)
      : spec_(learner_spec()),
        policy_(canter::make_mlp_policy(spec_, {.normalize_rewards = false}, 7)),
        rollout_(std::max(2048, 4 * minibatch_size) / kNumEnvs, kNumEnvs, spec_),
        ppo_({.horizon = rollout_.horizon(),
              .num_epochs = num_epochs,
              .num_minibatches = rollout_.num_samples() / minibatch_size},
             0, 7, *policy_) {
    rollout_.observations = normals(static_cast<int>(rollout_.observations.size()), 1);
    rollout_.rewards = normals(static_cast<int>(rollout_.rewards.size()), 2);
    policy_->observation_moments()->add(rollout_.observations);
    for (int t = 0; t < rollout_.horizon(); ++t) {
      policy_->act({.observations = rollout_.row(rollout_.observations, t, kObservationSize),
                    .seed = 7,
                    .step = static_cast<std::uint32_t>(t)},
                   {rollout_.env_actions, rollout_.row(rollout_.actions, t, kActionSize),
                    rollout_.row(rollout_.log_probs, t), rollout_.row(rollout_.values, t)});
    }
    const int last = rollout_.horizon();
    policy_->value(rollout_.row(rollout_.observations, last, kObservationSize),
                   rollout_.row(rollout_.values, last));
    const std::span<const float> parameters = std::as_const(*policy_).parameters();
    initial_parameters_.assign(parameters.begin(), parameters.end());
  }

  /// Puts the first parameters back, so that every update does the same work.
  void restore() {
    std::copy(initial_parameters_.begin(), initial_parameters_.end(),
              policy_->parameters().begin());
    policy_->parameters_changed();
  }
  void set_threads(const std::shared_ptr<canter::Threads>& threads) {
    policy_->set_threads(threads);
    ppo_.set_threads(threads);
  }
  canter::UpdateReport update() { return ppo_.update(rollout_, *policy_, *communicator_, 0); }

  canter::Policy& policy() { return *policy_; }
  canter::Ppo& ppo() { return ppo_; }
  canter::Rollout& rollout() { return rollout_; }
  int num_samples() const { return rollout_.num_samples(); }
  int num_epochs() const { return ppo_.options().num_epochs; }

 private:
  canter::Spec spec_;
  std::shared_ptr<canter::Policy> policy_;
  canter::Rollout rollout_;
  canter::Ppo ppo_;
  std::shared_ptr<canter::Communicator> communicator_ = canter::Communicator::single();
  std::vector<float> initial_parameters_;
};

}  // namespace bench
