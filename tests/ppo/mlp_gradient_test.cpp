// gradients and losses of MlpPolicy against central differences of a naive network in double

#include <doctest/doctest.h>

#include <numeric>

#include "mlp_reference.hpp"

using namespace canter;
using test::RandomSamples;
using test::Reference;

namespace {

// per tensor, relative to its largest gradient; and what float sums that cancel leave
constexpr double kGradientTolerance = 1e-5, kRounding = 3e-8;
constexpr double kLossTolerance = 2e-6;

struct Case {
  Spec spec;
  MlpPolicyOptions policy;
  LossOptions loss{};
  int num_samples = 40, minibatch = 23, stride = 1;
  bool masked = false, moments = true;
};

void randomise(Policy& policy, bool moments) {
  std::mt19937 generator(5);
  std::normal_distribution<float> normal;
  for (float& x : policy.parameters()) x += 0.1f * normal(generator);
  policy.parameters_changed();
  if (!moments || !policy.observation_moments()) return;
  std::vector<float> rows(64 * static_cast<std::size_t>(policy.spec().observation_size));
  for (float& x : rows) x = 1.5f * normal(generator) + 0.5f;
  policy.observation_moments()->add(rows);
}

void check_gradient(const Case& c) {
  const auto policy = make_mlp_policy(c.spec, c.policy, 3);
  randomise(*policy, c.moments);
  const RandomSamples samples(*policy, c.num_samples, 11, c.masked);
  std::vector<std::int32_t> indices(static_cast<std::size_t>(c.minibatch));
  for (std::size_t i = 0; i < indices.size(); ++i)
    indices[i] = static_cast<std::int32_t>((i * 7 + 3) % static_cast<std::size_t>(c.num_samples));

  const float weight = 0.75f;
  const LossStatistics sums = policy->backward(samples.view(), indices, c.loss, weight);
  Reference reference(*policy, c.policy);
  const test::ReferenceLoss expected = reference.loss(samples.view(), indices, c.loss);
  const double n = static_cast<double>(c.minibatch);
  CHECK(sums.num_samples == c.minibatch);
  CHECK(sums.policy_loss / n == doctest::Approx(expected.policy).epsilon(kLossTolerance).scale(10));
  CHECK(sums.value_loss / n == doctest::Approx(expected.value).epsilon(kLossTolerance).scale(10));
  CHECK(sums.entropy / n == doctest::Approx(expected.entropy).epsilon(kLossTolerance).scale(10));
  CHECK(sums.approx_kl / n == doctest::Approx(expected.kl).epsilon(kLossTolerance).scale(10));
  CHECK(sums.clip_fraction / n == doctest::Approx(expected.clip_fraction));

  for (const ParameterView& view : policy->parameter_views()) {
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < view.size; i += static_cast<std::size_t>(c.stride)) {
      const std::size_t at = view.offset + i;
      const double slope = 0.75 * reference.slope(at, samples.view(), indices, c.loss);
      largest = std::max(largest, std::abs(slope));
      worst = std::max(worst, std::abs(slope - static_cast<double>(policy->gradients()[at])));
    }
    CAPTURE(view.name);
    CHECK(largest > 0);
    CHECK(worst <= kGradientTolerance * largest + kRounding);
  }
}

Spec box(int observations, int actions) {
  return {.observation_size = observations, .action = Box{.size = actions, .low = -1, .high = 1}};
}
Spec discrete(int observations, int count) {
  return {.observation_size = observations, .action = Discrete{count}};
}

}  // namespace

TEST_CASE("gradient: every activation, distribution and layout") {
  for (const Activation activation : {Activation::tanh, Activation::relu, Activation::elu})
    for (const bool shared : {false, true})
      for (const bool is_discrete : {false, true}) {
        CAPTURE(static_cast<int>(activation));
        CAPTURE(shared);
        CAPTURE(is_discrete);
        check_gradient(
            {.spec = is_discrete ? discrete(5, 4) : box(5, 3),
             .policy = {.hidden = {13, 11}, .activation = activation, .shared_trunk = shared},
             .loss = {.entropy_coefficient = 0.05f,
                      .advantage_mean = 0.1f,
                      .advantage_scale = 1.3f},
             .masked = is_discrete && shared});
      }
}

TEST_CASE("gradient: plain and clipped value loss, plain advantages, no normaliser") {
  for (const float range : {0.0f, 0.1f, 5.0f})
    check_gradient({.spec = box(3, 1),
                    .policy = {.hidden = {9}, .normalize_observations = range > 1},
                    .loss = {.clip_range_value = range,
                             .value_coefficient = 1.5f,
                             .normalize_advantages = false},
                    .moments = range > 4});
}

TEST_CASE("gradient: sizes around the tiles") {
  SUBCASE("no hidden layer") {
    check_gradient({.spec = box(17, 6), .policy = {.hidden = {}}});
  }
  SUBCASE("no hidden layer, shared") {
    check_gradient({.spec = box(17, 7), .policy = {.hidden = {}, .shared_trunk = true}});
  }
  SUBCASE("one of each") {
    check_gradient({.spec = box(1, 1),
                    .policy = {.hidden = {1}},
                    .loss = {.clip_range = 0.9f, .clip_range_value = 3},
                    .num_samples = 3,
                    .minibatch = 1});
  }
  SUBCASE("minibatch of one") {
    check_gradient({.spec = box(17, 6), .policy = {.hidden = {16, 8}}, .minibatch = 1});
  }
  SUBCASE("wide action") {
    check_gradient({.spec = box(7, 17), .policy = {.hidden = {24}, .shared_trunk = true}});
  }
  SUBCASE("several blocks, masks") {
    check_gradient({.spec = discrete(9, 19),
                    .policy = {.hidden = {31, 17, 5}},
                    .num_samples = 150,
                    .minibatch = 143,
                    .stride = 5,
                    .masked = true});
  }
  SUBCASE("more blocks than slabs") {
    check_gradient({.spec = box(4, 2),
                    .policy = {.hidden = {7}},
                    .num_samples = 700,
                    .minibatch = 64 * 19 + 5});
    check_gradient({.spec = box(4, 2),
                    .policy = {.hidden = {7}, .shared_trunk = true},
                    .num_samples = 700,
                    .minibatch = 64 * 19 + 5});
  }
  SUBCASE("stride padding") {
    check_gradient({.spec = box(4, 2), .policy = {.hidden = {128, 3}}, .stride = 3});
  }
}

TEST_CASE("gradient is added to what is there") {
  const auto policy = make_mlp_policy(box(5, 2), {.hidden = {16, 9}}, 1);
  const RandomSamples samples(*policy, 20, 1);
  std::vector<std::int32_t> indices(20);
  std::iota(indices.begin(), indices.end(), 0);
  policy->backward(samples.view(), indices, {}, 1);
  const std::vector<float> once(policy->gradients().begin(), policy->gradients().end());
  policy->backward(samples.view(), indices, {}, 1);
  for (std::size_t i = 0; i < once.size(); ++i)
    CHECK(policy->gradients()[i] == doctest::Approx(2 * once[i]).epsilon(1e-6).scale(0.1));
}

TEST_CASE("std stays positive and finite for any log_std, and only gradients that lead back pass") {
  const auto policy = make_mlp_policy(box(3, 2), {.hidden = {4}}, 1);
  const RandomSamples samples(*policy, 30, 4);
  std::vector<std::int32_t> indices(30);
  std::iota(indices.begin(), indices.end(), 0);
  const std::size_t at = policy->parameter_views().back().offset;
  // entropy pushes log_std up: beyond the upper bound it must not push further
  for (const float log_std : {1e6f, -1e6f}) {
    policy->parameters()[at] = policy->parameters()[at + 1] = log_std;
    policy->parameters_changed();
    std::fill(policy->gradients().begin(), policy->gradients().end(), 0.0f);
    std::vector<float> actions(60), raw(60), log_probs(30);
    policy->act({.observations = samples.observations},
                {.env_actions = actions, .actions = raw, .log_probs = log_probs});
    for (float x : raw) CHECK(std::isfinite(x));
    for (float x : log_probs) CHECK(std::isfinite(x));
    SampleView view = samples.view();
    view.actions = raw;
    view.log_probs = log_probs;
    policy->backward(view, indices, {.entropy_coefficient = 1000}, 1);
    if (log_std > 0)
      CHECK(policy->gradients()[at] >= 0);
    else
      CHECK(policy->gradients()[at] < 0);
  }
}

TEST_CASE("a number that is not finite makes the loss sums not finite") {
  const auto policy = make_mlp_policy(box(5, 2), {.hidden = {10, 9}}, 1);
  std::vector<std::int32_t> indices(20);
  std::iota(indices.begin(), indices.end(), 0);
  for (const Activation activation : {Activation::tanh, Activation::relu, Activation::elu})
    for (int tensor = 0; tensor < 6; ++tensor) {
      const auto fresh =
          make_mlp_policy(box(5, 2), {.hidden = {10, 9}, .activation = activation}, 1);
      RandomSamples samples(*fresh, 20, 1);
      std::vector<float>* arrays[] = {&samples.observations, &samples.actions,
                                      &samples.log_probs,    &samples.values,
                                      &samples.advantages,   &samples.returns};
      (*arrays[tensor])[7] = std::nanf("");
      const LossStatistics sums = fresh->backward(samples.view(), indices, {}, 1);
      CAPTURE(tensor);
      CHECK_FALSE(std::isfinite(sums.policy_loss + sums.value_loss));
    }
}
