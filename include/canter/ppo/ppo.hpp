#pragma once
// Ppo: the update of Proximal Policy Optimization (Schulman et al. 2017, arXiv:1707.06347) with the
// details of "The 37 Implementation Details of PPO" (Huang et al. 2022).

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "canter/ppo/policy.hpp"
#include "canter/ppo/rollout.hpp"
#include "canter/sync/communicator.hpp"

namespace canter {

/// How a rollout row whose episode the time limit ended enters the advantages.
enum class TruncationHandling { bootstrap, terminal, mask };
constexpr std::array<std::string_view, 3> enum_names(TruncationHandling) {
  return {"bootstrap", "terminal", "mask"};
}

enum class Schedule { constant, linear };
constexpr std::array<std::string_view, 2> enum_names(Schedule) { return {"constant", "linear"}; }

/// Options of PPO.
struct PpoOptions {
  int horizon = 2048;                ///< steps per environment and iteration
  int num_epochs = 10;               ///< passes over the rollout
  int num_minibatches = 32;          ///< minibatches per pass; sizes differ by at most one, nothing is dropped
  float learning_rate = 3e-4f;
  Schedule learning_rate_schedule = Schedule::linear;  ///< linear: to 0 at total_steps; constant when total_steps is 0
  float gamma = 0.99f;               ///< discount per step
  float gae_lambda = 0.95f;          ///< lambda of generalised advantage estimation
  float clip_range = 0.2f;           ///< epsilon of the clipped surrogate
  float clip_range_value = 0.2f;     ///< epsilon of the clipped value loss; <= 0: plain squared error
  float entropy_coefficient = 0.0f;
  float value_coefficient = 0.5f;
  float max_grad_norm = 0.5f;        ///< global norm clip; <= 0: off
  bool normalize_advantages = true;  ///< per minibatch
  bool recompute_advantages = false; ///< with the new values before every epoch
  TruncationHandling truncation = TruncationHandling::bootstrap;
  float target_kl = 0.0f;            ///< stop the update when approx_kl exceeds it; <= 0: never
  float clip_reward = 10.0f;         ///< after scaling; <= 0: off
  float adam_beta1 = 0.9f;
  float adam_beta2 = 0.999f;
  float adam_epsilon = 1e-5f;
};

template <class Visitor>
void visit(PpoOptions& o, Visitor&& v) {
  v("horizon", o.horizon);
  v("num_epochs", o.num_epochs);
  v("num_minibatches", o.num_minibatches);
  v("learning_rate", o.learning_rate);
  v("learning_rate_schedule", o.learning_rate_schedule);
  v("gamma", o.gamma);
  v("gae_lambda", o.gae_lambda);
  v("clip_range", o.clip_range);
  v("clip_range_value", o.clip_range_value);
  v("entropy_coefficient", o.entropy_coefficient);
  v("value_coefficient", o.value_coefficient);
  v("max_grad_norm", o.max_grad_norm);
  v("normalize_advantages", o.normalize_advantages);
  v("recompute_advantages", o.recompute_advantages);
  v("truncation", o.truncation);
  v("target_kl", o.target_kl);
  v("clip_reward", o.clip_reward);
  v("adam_beta1", o.adam_beta1);
  v("adam_beta2", o.adam_beta2);
  v("adam_epsilon", o.adam_epsilon);
}

/// What one update did.
struct UpdateReport {
  double policy_loss = 0, value_loss = 0, entropy = 0, approx_kl = 0, clip_fraction = 0;
  double explained_variance = 0;   ///< 1 - Var(returns - values) / Var(returns), before the update
  double gradient_norm = 0;        ///< mean over minibatches, before clipping
  double learning_rate = 0;
  int num_minibatches = 0;         ///< optimiser steps taken
  int skipped_updates = 0;         ///< minibatches skipped because something was not finite
  std::string non_finite{};        ///< names tensor and environment of the first non-finite number, or ""
};

/// The learner's state (Adam's moments, step counts) and its update rule.
class Ppo {
 public:
  /// total_steps: environment steps of the whole run over all ranks, for schedules; 0: none.
  Ppo(PpoOptions options, std::int64_t total_steps, std::uint64_t seed, const Policy& policy);
  ~Ppo();

  const PpoOptions& options() const noexcept;
  void set_total_steps(std::int64_t total_steps);

  /// Scales rewards, computes advantages, runs the epochs. `env_steps`: steps before this rollout,
  /// over all ranks. Allocates nothing after the first call. The rollout must be complete.
  UpdateReport update(Rollout& rollout, Policy& policy, Communicator& communicator,
                      std::int64_t env_steps);
  /// Merges the observations of this rollout into the policy's moments: once per iteration, after update.
  void update_moments(const Rollout& rollout, Policy& policy, Communicator& communicator);

  void save(StateDict& state) const;
  void validate(const StateDict& state) const;
  void load(const StateDict& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace canter
