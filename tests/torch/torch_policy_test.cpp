// TorchPolicy against MlpPolicy on the same network (autograd against hand-written gradients), and
// canter's Adam against LibTorch's; what the policy promises about its module.

#include "canter/ppo/torch_policy.hpp"

#include <ATen/Parallel.h>
#include <doctest/doctest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "canter/base/error.hpp"
#include "canter/ppo/ppo.hpp"
#include "ppo/adam.hpp"
#include "ppo/filled_rollout.hpp"

namespace {

using canter::Activation;
using canter::LossOptions;
using canter::LossStatistics;
using canter::MlpPolicyOptions;
using canter::Policy;
using canter::Rng;
using canter::SampleView;
using canter::Stream;

constexpr double kGradientTolerance = 1e-5;  // of the largest gradient of the same tensor

canter::Spec spec_of(bool discrete) {
  canter::Spec spec{.observation_size = 11, .action = canter::Box{.size = 3, .low = -1, .high = 1}};
  if (discrete) spec.action = canter::Discrete{.count = 5};
  return spec;
}

// the same network twice, with numbers that are not those of the initialisation
struct Twins {
  std::shared_ptr<Policy> mlp, torch;

  Twins(const canter::Spec& spec, const MlpPolicyOptions& options) {
    mlp = canter::make_mlp_policy(spec, options, 3);
    torch =
        canter::make_torch_policy(spec, [&] { return canter::make_torch_mlp(spec, options, 3); },
                                  {.log_std_init = options.log_std_init,
                                   .normalize_observations = options.normalize_observations,
                                   .clip_observation = options.clip_observation});
    const auto views = mlp->parameter_views(), others = torch->parameter_views();
    REQUIRE(views.size() == others.size());
    for (std::size_t i = 0; i < views.size(); ++i) {
      CHECK(views[i].name == others[i].name);
      CHECK(views[i].shape == others[i].shape);
      CHECK(views[i].offset == others[i].offset);
    }
    const auto p = mlp->parameters(), q = torch->parameters();
    CHECK(std::memcmp(p.data(), q.data(), p.size_bytes()) == 0);

    Rng rng(9, Stream::environment, 0, 0);
    for (std::size_t i = 0; i < p.size(); ++i) p[i] += float(rng.normal(0, 0.1));
    std::copy(p.begin(), p.end(), q.begin());
    mlp->parameters_changed();
    torch->parameters_changed();
    std::vector<float> seen(20 * static_cast<std::size_t>(spec.observation_size));
    for (float& x : seen) x = float(rng.normal(0.3, 2));
    for (const auto& policy : {mlp, torch})
      if (auto* moments = policy->observation_moments()) moments->add(seen);
  }
};

// samples of a rollout: actions of the policy, log-probabilities and values that have moved since
struct Samples {
  std::vector<float> observations, actions, log_probs, values, advantages, returns;
  std::vector<std::uint8_t> masks;

  Samples(Policy& policy, std::size_t n, bool masked) {
    Rng rng(4, Stream::environment, 1, 0);
    const auto& spec = policy.spec();
    observations.resize(n * static_cast<std::size_t>(spec.observation_size));
    for (float& x : observations) x = float(rng.normal(0.3, 2));
    if (masked)
      for (std::size_t i = 0; i < 5 * n; ++i) masks.push_back(i % 5 == 2 || rng.uniform() < 0.7);
    actions.resize(n * static_cast<std::size_t>(spec.action_size()));
    log_probs.resize(n), values.resize(n);
    std::vector<float> clipped(actions.size());
    policy.act({.observations = observations, .action_masks = masks, .seed = 5},
               {clipped, actions, log_probs, values});
    for (std::size_t i = 0; i < n; ++i) {
      log_probs[i] += float(rng.normal(0, 0.2));
      values[i] += float(rng.normal(0, 0.2));
      advantages.push_back(float(rng.normal(1, 2)));
      returns.push_back(values[i] + advantages[i]);
    }
  }
  SampleView view() const {
    return {observations, actions, log_probs, values, advantages, returns, masks};
  }
};

void check_same_gradients(const Twins& twins, const Samples& samples,
                          const std::vector<std::int32_t>& indices, const LossOptions& options) {
  for (const auto& policy : {twins.mlp, twins.torch})
    std::fill(policy->gradients().begin(), policy->gradients().end(), 0.0f);
  const LossStatistics a = twins.mlp->backward(samples.view(), indices, options, 0.75f);
  const LossStatistics b = twins.torch->backward(samples.view(), indices, options, 0.75f);
  for (const auto& view : twins.mlp->parameter_views()) {
    CAPTURE(view.name);
    double largest = 0, difference = 0;
    for (std::size_t i = view.offset; i < view.offset + view.size; ++i) {
      const double g = double(twins.torch->gradients()[i]);
      largest = std::max(largest, std::abs(g));
      difference = std::max(difference, std::abs(double(twins.mlp->gradients()[i]) - g));
    }
    CHECK(difference <= kGradientTolerance * largest);
  }
  const auto close = [](double x, double y) { return std::abs(x - y) <= 1e-4 * (1 + std::abs(y)); };
  CHECK(close(a.policy_loss, b.policy_loss));
  CHECK(close(a.value_loss, b.value_loss));
  CHECK(close(a.entropy, b.entropy));
  CHECK(close(a.approx_kl, b.approx_kl));
  CHECK(a.clip_fraction == b.clip_fraction);
  CHECK(a.num_samples == b.num_samples);
}

struct Net : torch::nn::Module {
  Net() {
    actor = register_module("actor", torch::nn::Linear(11, 3));
    critic = register_module("critic", torch::nn::Linear(11, 1));
    calls = register_buffer("calls", torch::zeros({2}, torch::kInt64));
  }
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x) {
    calls[0] += 1;
    return {actor(x), critic(x).squeeze(1)};
  }
  torch::nn::Linear actor{nullptr}, critic{nullptr};
  torch::Tensor calls;
};

std::shared_ptr<Policy> make_net_policy(std::uint64_t seed) {
  return canter::make_torch_policy(
      spec_of(false), [] { return canter::as_torch_network(std::make_shared<Net>()); }, {}, seed);
}

std::vector<float> copy_of(std::span<const float> x) {
  return {x.begin(), x.end()};
}

}  // namespace

TEST_CASE("gradients of MlpPolicy equal autograd's") {
  constexpr std::size_t kNumSamples = 150;
  for (const bool discrete : {false, true})
    for (const bool masked : {false, true})
      for (const bool shared : {false, true})
        for (const auto activation : {Activation::tanh, Activation::relu, Activation::elu})
          for (const auto& hidden : {std::vector{64, 64}, {13, 7, 5}, {3}, {}}) {
            if (masked && !discrete) continue;
            const Twins twins(spec_of(discrete), {.hidden = hidden,
                                                  .activation = activation,
                                                  .shared_trunk = shared,
                                                  .log_std_init = -0.3f});
            const Samples samples(*twins.mlp, kNumSamples, masked);
            for (const float range : {0.2f, 0.0f})
              for (const bool normalise : {false, true})
                for (const std::size_t size : {1u, 7u, 65u, 131u}) {
                  CAPTURE(discrete);
                  CAPTURE(masked);
                  CAPTURE(shared);
                  CAPTURE(int(activation));
                  CAPTURE(hidden.size());
                  CAPTURE(range);
                  CAPTURE(size);
                  std::vector<std::int32_t> indices(size);
                  for (std::size_t i = 0; i < size; ++i)
                    indices[i] = static_cast<std::int32_t>((i * 37 + size) % kNumSamples);
                  check_same_gradients(twins, samples, indices,
                                       {.clip_range = 0.2f,
                                        .clip_range_value = range,
                                        .entropy_coefficient = 0.01f,
                                        .normalize_advantages = normalise,
                                        .advantage_mean = 0.9f,
                                        .advantage_scale = 0.4f});
                }
          }
}

TEST_CASE("gradients of standard deviations beyond their bounds lead back, the same in both") {
  const Twins twins(spec_of(false), {});
  const auto set_log_std = [&](std::size_t i, float value) {
    for (const auto& policy : {twins.mlp, twins.torch}) {
      policy->parameters().last(3)[i] = value;
      policy->parameters_changed();
      std::fill(policy->gradients().begin(), policy->gradients().end(), 0.0f);
    }
  };
  std::vector<std::int32_t> indices(64);
  std::iota(indices.begin(), indices.end(), 0);
  set_log_std(0, canter::kMaxLogStd + 1);
  set_log_std(2, canter::kMaxLogStd + 2);
  // the sign of a large entropy coefficient says where the gradient leads
  const Samples wide(*twins.mlp, 64, false);
  check_same_gradients(twins, wide, indices, {.entropy_coefficient = -10});
  for (const auto& policy : {twins.mlp, twins.torch}) {
    CHECK(policy->gradients().last(3)[0] > 0);  // descent lowers it
    CHECK(policy->gradients().last(3)[2] > 0);
  }
  check_same_gradients(twins, wide, indices, {.entropy_coefficient = 10});
  for (const auto& policy : {twins.mlp, twins.torch}) {
    CHECK(policy->gradients().last(3)[0] == 0);  // would raise it further
    CHECK(policy->gradients().last(3)[1] < 0);   // inside the bounds
    CHECK(policy->gradients().last(3)[2] == 0);
  }
  // at the other end densities are too steep to compare digits
  set_log_std(1, canter::kMinLogStd - 1);
  const Samples narrow(*twins.mlp, 64, false);
  for (const auto& policy : {twins.mlp, twins.torch}) {
    policy->backward(narrow.view(), indices, {.entropy_coefficient = 1e9f}, 1);
    CHECK(policy->gradients().last(3)[1] < 0);
  }
}

TEST_CASE("both policies act alike: same noise, same clipping, same values") {
  for (const bool discrete : {false, true})
    for (const bool deterministic : {false, true}) {
      const Twins twins(spec_of(discrete), {});
      Rng rng(8, Stream::environment, 0, 0);
      constexpr std::size_t kRows = 67;
      std::vector<float> observations(kRows * 11);
      for (float& x : observations) x = float(rng.normal(0.3, 2));
      std::vector<std::uint8_t> masks;
      if (discrete)
        for (std::size_t i = 0; i < 5 * kRows; ++i) masks.push_back(i % 5 != i % 3);
      const std::size_t width = discrete ? 1 : 3;
      struct Out {
        std::vector<float> env_actions, actions, log_probs, values, values_alone;
      } out[2];
      for (int k = 0; k < 2; ++k) {
        Policy& policy = k == 0 ? *twins.mlp : *twins.torch;
        Out& o = out[k];
        o.env_actions.resize(kRows * width), o.actions.resize(kRows * width);
        o.log_probs.resize(kRows), o.values.resize(kRows), o.values_alone.resize(kRows);
        policy.act({.observations = observations,
                    .action_masks = masks,
                    .seed = 2,
                    .first_id = 100,
                    .step = 7,
                    .deterministic = deterministic},
                   {o.env_actions, o.actions, o.log_probs, o.values});
        policy.value(observations, o.values_alone);
        CHECK(o.values_alone == o.values);
      }
      const auto close = [](const std::vector<float>& a, const std::vector<float>& b) {
        double worst = 0;
        for (std::size_t i = 0; i < a.size(); ++i)
          worst = std::max(worst, std::abs(double(a[i]) - double(b[i])));
        return worst <= 2e-5;
      };
      CHECK(close(out[0].env_actions, out[1].env_actions));
      CHECK(close(out[0].actions, out[1].actions));
      CHECK(close(out[0].log_probs, out[1].log_probs));
      CHECK(close(out[0].values, out[1].values));
      for (const float a : out[1].env_actions) CHECK((discrete || std::abs(a) <= 1));
    }
}

TEST_CASE("an update trains both alike") {
  const Twins twins(spec_of(false), {});
  std::vector<float> trained[2];
  for (int k = 0; k < 2; ++k) {
    Policy& policy = k == 0 ? *twins.mlp : *twins.torch;
    canter::Rollout rollout(32, 4, policy.spec());
    fill(rollout, policy);
    canter::Ppo ppo({.horizon = 32, .num_epochs = 3, .num_minibatches = 5}, 0, 1, policy);
    const auto report = ppo.update(rollout, policy, *canter::Communicator::single(), 0);
    CHECK(report.num_minibatches == 15);
    ppo.update_moments(rollout, policy, *canter::Communicator::single());
    trained[k] = copy_of(policy.parameters());
  }
  double worst = 0;
  for (std::size_t i = 0; i < trained[0].size(); ++i)
    worst = std::max(worst, std::abs(double(trained[0][i]) - double(trained[1][i])));
  CHECK(worst <= 1e-4);
}

TEST_CASE("Adam equals torch.optim.Adam") {
  constexpr std::int64_t kSize = 1037;
  torch::manual_seed(1);
  torch::Tensor theirs = torch::randn({kSize});
  std::vector<float> ours(theirs.data_ptr<float>(), theirs.data_ptr<float>() + kSize);
  theirs.requires_grad_();
  torch::optim::Adam optimiser(std::vector<torch::Tensor>{theirs},
                               torch::optim::AdamOptions(1e-3).eps(1e-5));
  canter::detail::Adam adam(kSize);
  const auto threads = canter::make_single_thread();
  for (int t = 0; t < 100; ++t) {
    const torch::Tensor gradient = torch::randn({kSize}) * std::pow(10.0, t % 5 - 3);
    std::vector<float> gradients(gradient.data_ptr<float>(), gradient.data_ptr<float>() + kSize);
    theirs.mutable_grad() = gradient;
    optimiser.step();
    adam.step(ours, gradients, 1, {.learning_rate = 1e-3}, *threads);
  }
  double worst = 0;
  for (std::size_t i = 0; i < ours.size(); ++i)
    worst = std::max(worst, std::abs(double(ours[i]) - double(theirs.data_ptr<float>()[i])));
  CHECK(worst <= 2e-6);
}

TEST_CASE("parameters and gradients are the flat arrays; gradients add up") {
  const auto policy = make_net_policy(1);
  CHECK(policy->kind() == "torch");
  const auto views = policy->parameter_views();
  CHECK(views.size() == 5);
  CHECK(views[0].name == "actor.weight");
  CHECK(views[4].name == "log_std");

  const std::vector<float> x(22, 1.0f);
  std::vector<float> values(2);
  for (float& p : policy->parameters()) p = 0.5f;
  policy->value(x, values);
  CHECK(values == std::vector<float>(2, 6.0f));

  const Samples samples(*policy, 20, false);
  const std::vector<std::int32_t> indices{3, 1, 4, 15, 9};
  policy->backward(samples.view(), indices, {}, 1);
  const auto once = copy_of(policy->gradients());
  CHECK(std::any_of(once.begin(), once.end(), [](float g) { return g != 0; }));
  policy->backward(samples.view(), indices, {}, 1);
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(policy->gradients()[i] == 2 * once[i]);
}

TEST_CASE("a seed gives the same network, and no global setting of LibTorch changes") {
  torch::manual_seed(77);
  const torch::Tensor expected = torch::rand({3});
  torch::manual_seed(77);
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  const auto a = make_net_policy(5), b = make_net_policy(5), c = make_net_policy(6);
  CHECK(copy_of(a->parameters()) == copy_of(b->parameters()));
  CHECK(copy_of(a->parameters()) != copy_of(c->parameters()));
  const std::vector<float> x(11, 1.0f);
  std::vector<float> value(1);
  a->value(x, value);
  CHECK(torch::equal(torch::rand({3}), expected));
  CHECK(at::get_num_threads() == 2);
  at::set_num_threads(before);
}

TEST_CASE("buffers are saved and loaded with the parameters; other networks are refused") {
  const auto a = make_net_policy(5), b = make_net_policy(6);
  const std::vector<float> x(11, 1.0f);
  std::vector<float> value(1), other(1);
  for (int i = 0; i < 4; ++i) a->value(x, value);
  canter::StateDict state;
  a->save(state);
  REQUIRE(state.find("policy/buffers/calls"));
  CHECK(state.get<std::int64_t>("policy/buffers/calls", {2})[0] == 4);
  b->load(state);
  canter::StateDict again;
  b->save(again);
  CHECK(again.get<std::int64_t>("policy/buffers/calls", {2})[0] == 4);
  b->value(x, other);
  CHECK(value == other);

  const canter::Spec spec = spec_of(false);
  const auto wide = canter::make_torch_policy(spec, [&] { return canter::make_torch_mlp(spec); });
  const auto before = copy_of(wide->parameters());
  CHECK_THROWS_AS(wide->load(state), canter::CheckpointError);
  CHECK(copy_of(wide->parameters()) == before);
}

TEST_CASE("modules that cannot work are refused by name") {
  struct Wrong : torch::nn::Module {
    explicit Wrong(torch::Dtype dtype, bool flat) : flat(flat) {
      weight = register_parameter("weight", torch::zeros({11, 3}, dtype));
    }
    std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x) {
      const torch::Tensor y = torch::matmul(x, weight);
      return {y, flat ? y.select(1, 0) : y.narrow(1, 0, 1)};
    }
    torch::Tensor weight;
    bool flat;
  };
  const auto make = [](torch::Dtype dtype, bool flat) {
    return canter::make_torch_policy(spec_of(false), [=] {
      return canter::as_torch_network(std::make_shared<Wrong>(dtype, flat));
    });
  };
  CHECK_THROWS_WITH_AS(make(torch::kFloat64, true),
                       "parameter weight must be float32 on the CPU, is Double on cpu",
                       canter::InvalidArgument);
  const std::vector<float> x(22);
  std::vector<float> values(2), too_many(3);
  CHECK_NOTHROW(make(torch::kFloat32, true)->value(x, values));
  CHECK_THROWS_WITH_AS(make(torch::kFloat32, false)->value(x, values),
                       "forward must return values as float32[2], got Float[2, 1]",
                       canter::InvalidArgument);
  CHECK_THROWS_AS(make(torch::kFloat32, true)->value(x, too_many), canter::InvalidArgument);
  CHECK_THROWS_AS(canter::make_torch_policy(spec_of(false), [] { return canter::TorchNetwork{}; }),
                  canter::InvalidArgument);
}
