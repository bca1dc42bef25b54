// The update of PPO: clipped surrogate, value loss and entropy bonus over shuffled minibatches.
// Notation: T = horizon, N = num_envs; flat arrays are [T * N], sample = t * N + environment.

#include "canter/ppo/ppo.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "ppo/faults.hpp"
#include "ppo/ppo_impl.hpp"

namespace canter {

UpdateReport Ppo::Impl::update(Rollout& rollout, Policy& policy, Communicator& communicator,
                               std::int64_t env_steps) {
  begin(rollout, policy, communicator);
  const Threads::Session threads_stay_awake(*threads);
  UpdateReport report;
  report.learning_rate = learning_rate_at(options, env_steps, total_steps);

  // a rollout that holds one unusable number teaches nothing
  refused_rollout = !is_usable(rollout, communicator, report);
  if (refused_rollout) {
    report.skipped_updates = options.num_epochs * options.num_minibatches;
    ++iteration;
    return report;
  }

  // rewards [T, N] -> advantages [T, N] and returns [T, N]
  const AdvantageInput rows = scale_rewards(rollout, policy, communicator);
  estimate_advantages(rows, rollout);

  // the samples of every minibatch of every epoch, and their advantages' moments
  minibatches.shuffle(rows, options.truncation, seed, iteration);
  minibatches.gather_moments(rollout.advantages, rollout.returns, 0, communicator);
  report.explained_variance = minibatches.explained_variance();

  const LossStatistics sums = run_epochs(rows, rollout, policy, communicator, report);
  const double num_samples = static_cast<double>(std::max<std::int64_t>(sums.num_samples, 1));
  report.policy_loss = sums.policy_loss / num_samples;
  report.value_loss = sums.value_loss / num_samples;
  report.entropy = sums.entropy / num_samples;
  report.approx_kl = sums.approx_kl / num_samples;
  report.clip_fraction = sums.clip_fraction / num_samples;
  report.gradient_norm /= std::max(report.num_minibatches, 1);
  ++iteration;
  return report;
}

LossStatistics Ppo::Impl::run_epochs(const AdvantageInput& rows, Rollout& rollout, Policy& policy,
                                     Communicator& communicator, UpdateReport& report) {
  LossStatistics totals;
  for (int epoch = 0; epoch < options.num_epochs; ++epoch) {
    // optionally follow the value function as it learns
    if (options.recompute_advantages && epoch > 0) {
      rollout.evaluate_again(policy);
      estimate_advantages(rows, rollout);
      minibatches.gather_moments(rollout.advantages, rollout.returns, epoch, communicator);
    }
    for (int minibatch = 0; minibatch < options.num_minibatches; ++minibatch) {
      const LossStatistics sums = learn(epoch, minibatch, rollout, policy, communicator, report);
      totals.policy_loss += sums.policy_loss;
      totals.value_loss += sums.value_loss;
      totals.entropy += sums.entropy;
      totals.approx_kl += sums.approx_kl;
      totals.clip_fraction += sums.clip_fraction;
      totals.num_samples += sums.num_samples;
      if (report.stopped_by_kl) return totals;
    }
  }
  return totals;
}

LossStatistics Ppo::Impl::learn(int epoch, int minibatch, const Rollout& rollout, Policy& policy,
                                Communicator& communicator, UpdateReport& report) {
  const std::span<const std::int32_t> indices = minibatches.indices(epoch, minibatch);
  const std::int64_t num_samples = minibatches.num_samples(epoch, minibatch);  // of all ranks
  if (num_samples == 0) return {};

  const SampleView samples = rollout.samples();
  const LossOptions loss{.clip_range = options.clip_range,
                         .clip_range_value = options.clip_range_value,
                         .entropy_coefficient = options.entropy_coefficient,
                         .value_coefficient = options.value_coefficient,
                         .normalize_advantages = options.normalize_advantages,
                         .advantage_mean = minibatches.advantage_mean(epoch, minibatch),
                         .advantage_scale = minibatches.advantage_scale(epoch, minibatch)};

  // gradient of this rank's mean loss, weighted so that the sum over ranks is that of the whole
  // mean
  const float weight = static_cast<float>(indices.size()) / static_cast<float>(num_samples);
  LossStatistics sums;
  if (!indices.empty()) sums = policy.backward(samples, indices, loss, weight);
  std::array<double, 5> tail = {sums.policy_loss, sums.value_loss, sums.entropy, sums.approx_kl,
                                sums.clip_fraction};
  const std::span<float> gradients = policy.gradients();
  communicator.all_reduce(gradients, tail);
  sums = {tail[0], tail[1], tail[2], tail[3], tail[4], num_samples};
  const double norm = adam.norm(gradients, *threads);

  // every rank has the same bits now, so all decide the same
  if (!detail::is_finite(tail) || !std::isfinite(norm)) {
    ++report.skipped_updates;
    if (report.non_finite.empty())
      report.non_finite =
          detail::name_fault(epoch, minibatch, sums, policy, gradients, indices, rollout);
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    return {};
  }
  const double approx_kl = sums.approx_kl / static_cast<double>(num_samples);
  if (options.target_kl > 0 && approx_kl > static_cast<double>(options.target_kl)) {
    report.stopped_by_kl = true;
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    return sums;
  }

  // clip the global norm, then one step of Adam
  const double limit = static_cast<double>(options.max_grad_norm);
  const double scale = limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
  adam.step(policy.parameters(), gradients, static_cast<float>(scale),
            {.learning_rate = report.learning_rate,
             .beta1 = options.adam_beta1,
             .beta2 = options.adam_beta2,
             .epsilon = options.adam_epsilon},
            *threads);
  policy.parameters_changed();
  ++report.num_minibatches;
  report.gradient_norm += norm;
  return sums;
}

bool Ppo::Impl::is_usable(const Rollout& rollout, Communicator& communicator,
                          UpdateReport& report) {
  report.non_finite = detail::find_fault(rollout);
  double num_faults = report.non_finite.empty() ? 0 : 1;
  communicator.all_reduce(std::span(&num_faults, 1));
  return num_faults == 0;
}

AdvantageInput Ppo::Impl::scale_rewards(const Rollout& rollout, Policy& policy,
                                        Communicator& communicator) {
  AdvantageInput rows = rollout.advantage_input();
  if (RunningMoments* moments = policy.return_moments()) {
    reward_scaler.scale(rollout, *moments, options.gamma, options.clip_reward, communicator,
                        scaled_rewards);
    rows.rewards = scaled_rewards;
  }
  return rows;
}

void Ppo::Impl::estimate_advantages(const AdvantageInput& rows, Rollout& rollout) const {
  compute_advantages(
      rows,
      {.gamma = options.gamma, .gae_lambda = options.gae_lambda, .truncation = options.truncation},
      rollout.advantages, rollout.returns);
}

UpdateReport Ppo::update(Rollout& rollout, Policy& policy, Communicator& communicator,
                         std::int64_t env_steps) {
  try {
    return impl_->update(rollout, policy, communicator, env_steps);
  } catch (...) {
    // the other ranks must not wait for this one
    if (communicator.size() > 1) communicator.abort();
    throw;
  }
}

void Ppo::update_moments(const Rollout& rollout, Policy& policy, Communicator& communicator) {
  RunningMoments* moments = policy.observation_moments();
  if (!moments || impl_->refused_rollout) return;
  RunningMoments& delta = impl_->observation_delta;
  if (delta.size() != moments->size()) delta = RunningMoments(moments->size());

  // the last row is the first of the next rollout
  const std::size_t size = static_cast<std::size_t>(rollout.num_samples()) *
                           static_cast<std::size_t>(rollout.observation_size());
  delta.clear();
  delta.add(std::span(rollout.observations).first(size));
  detail::merge_ranks(*moments, delta, communicator, impl_->gathered);
}

}  // namespace canter
