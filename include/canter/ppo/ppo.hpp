#pragma once
// Ppo: the update of Proximal Policy Optimization (Schulman et al. 2017, arXiv:1707.06347) with the
// details of "The 37 Implementation Details of PPO" (Huang et al. 2022).
//
//   canter::Ppo ppo(options, total_steps, seed, *policy);
//   canter::Ppo::synchronize(*policy, *communicator);        // all ranks start equal
//   while (...) {
//     ...                                                    // fill the rollout
//     const auto report = ppo.update(rollout, *policy, *communicator, env_steps);
//     ppo.update_moments(rollout, *policy, *communicator);
//   }

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "canter/base/state.hpp"
#include "canter/base/threads.hpp"
#include "canter/ppo/advantages.hpp"
#include "canter/ppo/policy.hpp"
#include "canter/ppo/rollout.hpp"
#include "canter/sync/communicator.hpp"

namespace canter {

enum class Schedule { constant, linear };
constexpr std::array<std::string_view, 2> enum_names(Schedule) {
  return {"constant", "linear"};
}

/// Options of PPO.
struct PpoOptions {
  int horizon = 2048;   ///< steps per environment and iteration
  int num_epochs = 10;  ///< passes over the rollout
  /// minibatches per pass; sizes differ by at most one, nothing is dropped
  int num_minibatches = 32;
  float learning_rate = 3e-4f;
  /// linear: to 0 at total_steps; constant when total_steps is 0
  Schedule learning_rate_schedule = Schedule::linear;
  float gamma = 0.99f;            ///< discount per step
  float gae_lambda = 0.95f;       ///< lambda of generalised advantage estimation
  float clip_range = 0.2f;        ///< epsilon of the clipped surrogate
  float clip_range_value = 0.2f;  ///< epsilon of the clipped value loss; <= 0: plain squared error
  float entropy_coefficient = 0.0f;
  float value_coefficient = 0.5f;
  float max_grad_norm = 0.5f;         ///< global norm clip; <= 0: off
  bool normalize_advantages = true;   ///< per minibatch: (A - mean) / (std + 1e-8), std with n - 1;
                                      ///< a single sample or equal ones become 0
  bool recompute_advantages = false;  ///< with the new values before every epoch
  TruncationHandling truncation = TruncationHandling::bootstrap;
  /// stop before the first minibatch whose approx_kl exceeds it; <= 0: never
  float target_kl = 0.0f;
  float clip_reward = 10.0f;  ///< after scaling; <= 0: off
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

/// What one update did. Losses, KL and clip fraction are means over all samples of all ranks and
/// epochs.
struct UpdateReport {
  double policy_loss = 0, value_loss = 0, entropy = 0, approx_kl = 0, clip_fraction = 0;
  double explained_variance = 0;  ///< 1 - Var(returns - values) / Var(returns), before the update;
                                  ///< 0 if returns are constant
  double gradient_norm = 0;       ///< mean over minibatches, before clipping
  double learning_rate = 0;       ///< in force during this update
  int num_minibatches = 0;        ///< optimiser steps taken
  int skipped_updates = 0;        ///< minibatches skipped because something was not finite
  bool stopped_by_kl = false;     ///< target_kl ended the update early
  /// "rewards: inf at environment 7, step 3" for the first number of this rank that is not usable,
  /// a loss or gradient by name, or "". Environments count from 0 within the rank.
  std::string non_finite{};
};

/// The learner's state (Adam's moments, step counts, running returns) and its update rule.
///
/// Numbers that are not finite, or whose square overflows float32 (beyond 1e18), never reach the
/// parameters: one in the rollout skips the whole update (on all ranks), one in a loss or gradient
/// skips that minibatch; parameters, moments and normalisers then keep their bits.
/// One call at a time. The same bits for any number of threads, and on every rank.
class Ppo {
 public:
  /// total_steps: environment steps of the whole run over all ranks, for schedules; 0: none.
  /// @throws InvalidArgument for an option out of its range, by name.
  Ppo(PpoOptions options, std::int64_t total_steps, std::uint64_t seed, const Policy& policy);
  ~Ppo();
  Ppo(const Ppo&) = delete;
  Ppo& operator=(const Ppo&) = delete;

  const PpoOptions& options() const noexcept;
  void set_total_steps(std::int64_t total_steps);
  /// Threads for the optimiser (share the policy's); the caller's alone until then.
  void set_threads(std::shared_ptr<Threads> threads);

  /// Gives every rank the policy of rank 0: parameters, buffers, normalisers. Call it before the
  /// first rollout; on one rank it does nothing.
  /// @throws CommunicationError on every rank when their networks differ, naming the first array.
  static void synchronize(Policy& policy, Communicator& communicator);

  /// Scales rewards, computes advantages, runs the epochs. `env_steps`: steps before this rollout,
  /// over all ranks; the learning rate follows from it alone. Allocates nothing after the first
  /// call (recompute_advantages and reports of faults excepted). The rollout must be complete.
  /// @throws InvalidArgument when the rollout does not fit the options or the policy.
  /// @throws CommunicationError when a rank fails, or its parameters differ at the first call.
  UpdateReport update(Rollout& rollout, Policy& policy, Communicator& communicator,
                      std::int64_t env_steps);
  /// Merges the observations of this rollout into the policy's moments: once per iteration, after
  /// update. Ranks merge the same deltas in rank order; a rollout that update refused is left out.
  void update_moments(const Rollout& rollout, Policy& policy, Communicator& communicator);

  /// Below "ppo/", and "env/discounted_returns" f64[num_envs] (empty before the first update).
  void save(StateDict& state) const;
  void validate(const StateDict& state) const;
  void load(const StateDict& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The learning rate at `env_steps`: constant, or linear from learning_rate to 0 at total_steps.
double learning_rate_at(const PpoOptions& options, std::int64_t env_steps,
                        std::int64_t total_steps) noexcept;

}  // namespace canter
