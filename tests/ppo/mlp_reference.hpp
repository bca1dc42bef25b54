#pragma once
// An independent PPO loss over an MLP in double precision, written as naive loops over the named
// tensors of a policy: the oracle for gradients, log-probabilities and values.

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "canter/ppo/mlp_policy.hpp"

namespace canter::test {

/// The mean loss and its parts, in double.
struct ReferenceLoss {
  double total = 0, policy = 0, value = 0, entropy = 0, kl = 0, clip_fraction = 0;
};

/// A policy's tensors in double, and what can be computed of them.
class Reference {
 public:
  Reference(Policy& policy, MlpPolicyOptions options) : policy_(policy), options_(options) {
    parameters.assign(policy.parameters().begin(), policy.parameters().end());
    for (const ParameterView& view : policy.parameter_views()) views_[view.name] = view;
  }

  std::vector<double> parameters;

  std::vector<double> normalise(const float* row) const {
    std::vector<double> x(row, row + policy_.spec().observation_size);
    const RunningMoments* moments = policy_.observation_moments();
    if (!moments || moments->count() == 0) return x;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = (x[i] - moments->mean()[i]) / std::sqrt(moments->variance(static_cast<int>(i)) + 1e-8);
      const double clip = static_cast<double>(options_.clip_observation);
      if (clip > 0) x[i] = std::clamp(x[i], -clip, clip);
    }
    return x;
  }

  /// Parameters of the action distribution.
  std::vector<double> actor(const float* row) const { return head(row, "actor"); }
  double value(const float* row) const { return head(row, "critic")[0]; }

  double log_std(std::size_t i) const { return parameters[views_.at("log_std").offset + i]; }

  /// Probabilities of the actions that the mask allows.
  static std::vector<double> softmax(const std::vector<double>& logits, const std::uint8_t* mask) {
    std::vector<double> p(logits.size());
    double sum = 0;
    for (std::size_t i = 0; i < p.size(); ++i)
      sum += p[i] = !mask || mask[i] ? std::exp(logits[i]) : 0;
    for (double& x : p) x /= sum;
    return p;
  }

  double log_prob(const std::vector<double>& out, const float* action,
                  const std::uint8_t* mask) const {
    if (policy_.spec().is_discrete())
      return std::log(softmax(out, mask)[static_cast<std::size_t>(action[0])]);
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double std = std::exp(log_std(i)), z = (static_cast<double>(action[i]) - out[i]) / std;
      sum += -0.5 * z * z - log_std(i) - 0.5 * std::log(2 * std::numbers::pi);
    }
    return sum;
  }

  double entropy(const std::vector<double>& out, const std::uint8_t* mask) const {
    double sum = 0;
    if (policy_.spec().is_discrete()) {
      for (double p : softmax(out, mask)) sum -= p > 0 ? p * std::log(p) : 0;
    } else {
      for (std::size_t i = 0; i < out.size(); ++i)
        sum += log_std(i) + 0.5 * std::log(2 * std::numbers::pi * std::numbers::e);
    }
    return sum;
  }

  ReferenceLoss loss(const SampleView& s, std::span<const std::int32_t> indices,
                     const LossOptions& o) const {
    ReferenceLoss mean;
    const double n = static_cast<double>(indices.size()), clip = o.clip_range;
    for (std::int32_t index : indices) {
      const auto i = static_cast<std::size_t>(index);
      const float* row =
          &s.observations[i * static_cast<std::size_t>(policy_.spec().observation_size)];
      const float* action = &s.actions[i * static_cast<std::size_t>(policy_.spec().action_size())];
      const std::vector<double> out = actor(row);
      const std::uint8_t* mask = s.action_masks.empty() ? nullptr : &s.action_masks[i * out.size()];
      const double log_ratio = log_prob(out, action, mask) - static_cast<double>(s.log_probs[i]);
      const double ratio = std::exp(log_ratio);
      double advantage = s.advantages[i];
      if (o.normalize_advantages)
        advantage = (advantage - static_cast<double>(o.advantage_mean)) *
                    static_cast<double>(o.advantage_scale);
      mean.policy +=
          std::max(-advantage * ratio, -advantage * std::clamp(ratio, 1 - clip, 1 + clip)) / n;
      mean.kl += (ratio - 1 - log_ratio) / n;
      mean.clip_fraction += (std::abs(ratio - 1) > clip ? 1 : 0) / n;
      mean.entropy += entropy(out, mask) / n;
      const double v = value(row), old = s.values[i], target = s.returns[i],
                   range = o.clip_range_value;
      double squared = (v - target) * (v - target);
      if (range > 0) {
        const double near = old + std::clamp(v - old, -range, range);
        squared = std::max(squared, (near - target) * (near - target));
      }
      mean.value += 0.5 * squared / n;
    }
    mean.total = mean.policy - static_cast<double>(o.entropy_coefficient) * mean.entropy +
                 static_cast<double>(o.value_coefficient) * mean.value;
    return mean;
  }

  /// Central difference of the loss by parameter i.
  double slope(std::size_t i, const SampleView& s, std::span<const std::int32_t> indices,
               const LossOptions& o) {
    const double h = 1e-6, kept = parameters[i];
    parameters[i] = kept + h;
    const double up = loss(s, indices, o).total;
    parameters[i] = kept - h;
    const double down = loss(s, indices, o).total;
    parameters[i] = kept;
    return (up - down) / (2 * h);
  }

 private:
  std::vector<double> affine(const std::string& name, const std::vector<double>& x) const {
    const ParameterView& w = views_.at(name + ".weight");
    const ParameterView& b = views_.at(name + ".bias");
    std::vector<double> y(b.size);
    for (std::size_t n = 0; n < y.size(); ++n) {
      y[n] = parameters[b.offset + n];
      for (std::size_t k = 0; k < x.size(); ++k)
        y[n] += parameters[w.offset + n * x.size() + k] * x[k];
    }
    return y;
  }

  std::vector<double> activate(std::vector<double> z) const {
    for (double& x : z) switch (options_.activation) {
        case Activation::tanh:
          x = std::tanh(x);
          break;
        case Activation::relu:
          x = std::max(x, 0.0);
          break;
        case Activation::elu:
          x = x > 0 ? x : std::expm1(x);
          break;
      }
    return z;
  }

  std::vector<double> head(const float* row, const std::string& which) const {
    std::vector<double> x = normalise(row);
    const std::string chain = options_.shared_trunk ? "trunk" : which;
    for (std::size_t i = 0; i < options_.hidden.size(); ++i)
      x = activate(affine(chain + "." + std::to_string(i), x));
    return affine(
        options_.shared_trunk ? which : which + "." + std::to_string(options_.hidden.size()), x);
  }

  Policy& policy_;
  MlpPolicyOptions options_;
  std::map<std::string, ParameterView> views_;
};

/// Random samples that a policy could have met: some ratios and values beyond their clip ranges.
struct RandomSamples {
  RandomSamples(Policy& policy, int count, unsigned seed, bool masked = false) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    const Spec& spec = policy.spec();
    const auto n = static_cast<std::size_t>(count);
    const auto width = static_cast<std::size_t>(spec.action_size());
    observations.resize(n * static_cast<std::size_t>(spec.observation_size));
    for (float& x : observations) x = 2 * normal(generator) + 1;
    actions.resize(n * width);
    log_probs.resize(n);
    values.resize(n);
    if (spec.is_discrete() && masked) {
      const auto choices = static_cast<std::size_t>(std::get<Discrete>(spec.action).count);
      masks.resize(n * choices);
      for (std::uint8_t& m : masks) m = generator() % 3 != 0;
      for (std::size_t i = 0; i < n; ++i) masks[i * choices + generator() % choices] = 1;
    }
    std::vector<float> env_actions(actions.size());
    policy.act(
        {.observations = observations, .action_masks = masks, .seed = seed},
        {.env_actions = env_actions, .actions = actions, .log_probs = log_probs, .values = values});
    fresh_log_probs = log_probs;
    for (float& x : log_probs) x += 0.25f * normal(generator);
    for (float& x : values) x += 0.3f * normal(generator);
    for (std::size_t i = 0; i < n; ++i) {
      advantages.push_back(normal(generator));
      returns.push_back(values[i] + normal(generator));
    }
  }

  SampleView view() const {
    return {observations, actions, log_probs, values, advantages, returns, masks};
  }

  std::vector<float> observations, actions, log_probs, fresh_log_probs, values, advantages, returns;
  std::vector<std::uint8_t> masks;
};

}  // namespace canter::test
