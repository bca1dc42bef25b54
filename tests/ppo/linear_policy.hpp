#pragma once
// The smallest policy that can be trained: a Gaussian around W x + b, a value v x + c, written as
// plain loops in double. Tests of the learner use it, so that they do not depend on MlpPolicy.

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "canter/base/rng.hpp"
#include "canter/ppo/policy.hpp"

class LinearPolicy final : public canter::Policy {
 public:
  /// scale_rewards: it has moments of the discounted return.
  explicit LinearPolicy(canter::Spec spec, std::uint64_t seed = 0, bool scale_rewards = false)
      : spec_(std::move(spec)),
        observation_size_(static_cast<std::size_t>(spec_.observation_size)),
        action_size_(static_cast<std::size_t>(spec_.action_size())),
        value_first_(action_size_ * (observation_size_ + 1)),
        log_std_first_(value_first_ + observation_size_ + 1),
        parameters_(log_std_first_ + action_size_),
        gradients_(parameters_.size()),
        observation_moments_(spec_.observation_size),
        return_moments_(1),
        scale_rewards_(scale_rewards) {
    canter::Rng rng(seed, canter::Stream::initialisation, 0, 0);
    for (std::size_t i = 0; i < log_std_first_; ++i) parameters_[i] = float(rng.normal(0, 0.1));
  }

  const canter::Spec& spec() const noexcept override { return spec_; }
  std::string kind() const override { return "linear"; }

  void act(const canter::ActInput& in, const canter::ActOutput& out) override {
    for (std::size_t row = 0; row < in.observations.size() / observation_size_; ++row) {
      const float* x = in.observations.data() + row * observation_size_;
      canter::Rng rng(in.seed, canter::Stream::action,
                      in.first_id + static_cast<std::uint32_t>(row), in.step);
      for (std::size_t a = 0; a < action_size_; ++a) {
        const double std = std::exp(double(parameters_[log_std_first_ + a]));
        out.actions[row * action_size_ + a] = float(mean(x, a) + std * rng.normal());
        out.env_actions[row * action_size_ + a] = out.actions[row * action_size_ + a];
      }
      out.log_probs[row] = float(log_prob(x, out.actions.data() + row * action_size_));
      out.values[row] = float(value_of(x));
    }
  }

  void value(std::span<const float> observations, std::span<float> values) override {
    for (std::size_t row = 0; row < values.size(); ++row)
      values[row] = float(value_of(observations.data() + row * observation_size_));
  }

  canter::LossStatistics backward(const canter::SampleView& samples,
                                  std::span<const std::int32_t> indices,
                                  const canter::LossOptions& options, float weight) override {
    canter::LossStatistics sums;
    for (const std::int32_t index : indices)
      add_sample(samples, static_cast<std::size_t>(index), options,
                 double(weight) / double(indices.size()), sums);
    sums.num_samples = static_cast<std::int64_t>(indices.size());
    return sums;
  }

  std::span<float> parameters() noexcept override { return parameters_; }
  std::span<const float> parameters() const noexcept override { return parameters_; }
  std::span<float> gradients() noexcept override { return gradients_; }
  std::vector<canter::ParameterView> parameter_views() const override {
    const auto a = static_cast<std::int64_t>(action_size_),
               n = std::int64_t{spec_.observation_size};
    return {{"actor.weight", {a, n}, 0, action_size_ * observation_size_},
            {"actor.bias", {a}, action_size_ * observation_size_, action_size_},
            {"critic.weight", {1, n}, value_first_, observation_size_},
            {"critic.bias", {1}, value_first_ + observation_size_, 1},
            {"log_std", {a}, log_std_first_, action_size_}};
  }
  canter::RunningMoments* observation_moments() noexcept override { return &observation_moments_; }
  canter::RunningMoments* return_moments() noexcept override {
    return scale_rewards_ ? &return_moments_ : nullptr;
  }
  void set_threads(std::shared_ptr<canter::Threads>) override {}

  void save(canter::StateDict& state) const override {
    state.append("policy/parameters", std::span<const float>(parameters_),
                 {static_cast<std::int64_t>(parameters_.size())});
    observation_moments_.save(state, "policy/observation_moments");
    return_moments_.save(state, "policy/return_moments");
  }
  void validate(const canter::StateDict& state) const override {
    state.checked("policy/parameters", canter::Dtype::f32,
                  {static_cast<std::int64_t>(parameters_.size())});
  }
  void load(const canter::StateDict& state) override {
    validate(state);
    parameters_ =
        state.get<float>("policy/parameters", {static_cast<std::int64_t>(parameters_.size())});
    observation_moments_.load(state, "policy/observation_moments");
    return_moments_.load(state, "policy/return_moments");
  }

  double mean(const float* x, std::size_t a) const {
    double sum = double(parameters_[action_size_ * observation_size_ + a]);
    for (std::size_t k = 0; k < observation_size_; ++k)
      sum += double(parameters_[a * observation_size_ + k]) * double(x[k]);
    return sum;
  }
  double value_of(const float* x) const {
    double sum = double(parameters_[value_first_ + observation_size_]);
    for (std::size_t k = 0; k < observation_size_; ++k)
      sum += double(parameters_[value_first_ + k]) * double(x[k]);
    return sum;
  }
  double log_prob(const float* x, const float* action) const {
    double sum = 0;
    for (std::size_t a = 0; a < action_size_; ++a) {
      const double log_std = double(parameters_[log_std_first_ + a]);
      const double z = (double(action[a]) - mean(x, a)) / std::exp(log_std);
      sum -= 0.5 * z * z + log_std + 0.5 * std::log(2 * std::numbers::pi);
    }
    return sum;
  }

 private:
  void add_sample(const canter::SampleView& samples, std::size_t i,
                  const canter::LossOptions& options, double weight, canter::LossStatistics& sums) {
    const float* x = samples.observations.data() + i * observation_size_;
    const float* action = samples.actions.data() + i * action_size_;
    double advantage = double(samples.advantages[i]);
    if (options.normalize_advantages)
      advantage = (advantage - double(options.advantage_mean)) * double(options.advantage_scale);

    // clipped surrogate
    const double log_ratio = log_prob(x, action) - double(samples.log_probs[i]);
    const double ratio = std::exp(log_ratio), epsilon = double(options.clip_range);
    const double clipped = std::clamp(ratio, 1 - epsilon, 1 + epsilon);
    const bool is_active = ratio * advantage <= clipped * advantage;
    sums.policy_loss += -std::min(ratio * advantage, clipped * advantage);
    sums.approx_kl += ratio - 1 - log_ratio;
    sums.clip_fraction += std::abs(ratio - 1) > epsilon;
    const double d_log_prob = is_active ? -ratio * advantage : 0;

    // clipped value loss
    const double value = value_of(x), old = double(samples.values[i]);
    const double range = double(options.clip_range_value), target = double(samples.returns[i]);
    const double near = range > 0 ? old + std::clamp(value - old, -range, range) : value;
    const bool plain = (value - target) * (value - target) >= (near - target) * (near - target);
    const double error = plain ? value - target : near - target;
    sums.value_loss += 0.5 * error * error;
    const double d_value = plain || near == value ? double(options.value_coefficient) * error : 0;

    for (std::size_t a = 0; a < action_size_; ++a) {
      const double log_std = double(parameters_[log_std_first_ + a]), std = std::exp(log_std);
      const double z = (double(action[a]) - mean(x, a)) / std;
      sums.entropy += log_std + 0.5 * std::log(2 * std::numbers::pi * std::numbers::e);
      for (std::size_t k = 0; k <= observation_size_; ++k) {
        const std::size_t p = k < observation_size_ ? a * observation_size_ + k
                                                    : action_size_ * observation_size_ + a;
        add(p, weight * d_log_prob * z / std * (k < observation_size_ ? double(x[k]) : 1.0));
      }
      add(log_std_first_ + a,
          weight * (d_log_prob * (z * z - 1) - double(options.entropy_coefficient)));
    }
    for (std::size_t k = 0; k <= observation_size_; ++k)
      add(value_first_ + k, weight * d_value * (k < observation_size_ ? double(x[k]) : 1.0));
  }
  void add(std::size_t p, double gradient) { gradients_[p] += float(gradient); }

  canter::Spec spec_;
  std::size_t observation_size_, action_size_, value_first_, log_std_first_;
  std::vector<float> parameters_, gradients_;
  canter::RunningMoments observation_moments_, return_moments_;
  bool scale_rewards_;
};
