// MlpPolicy acting: values and densities against a naive network, noise, masks, bounds, bits

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <numeric>

#include "canter/base/error.hpp"
#include "mlp_reference.hpp"
#include "ppo/kernels.hpp"

namespace canter::test {
extern std::atomic<long> num_allocations;  // counts in ppo_mlp_test.cpp
}

using namespace canter;
using test::RandomSamples;
using test::Reference;

namespace {

// float sums over a few hundred terms
constexpr double kForwardTolerance = 3e-6;

Spec box(int observations, int actions) {
  return {.observation_size = observations, .action = Box{.size = actions, .low = -1, .high = 1}};
}
Spec discrete(int observations, int count) {
  return {.observation_size = observations, .action = Discrete{count}};
}

struct Acted {
  Acted(Policy& policy, std::size_t rows)
      : env_actions(rows * static_cast<std::size_t>(policy.spec().action_size())),
        actions(env_actions.size()),
        log_probs(rows),
        values(rows) {}
  ActOutput all() { return {env_actions, actions, log_probs, values}; }
  // the outputs of rows [first, first + count)
  ActOutput part(std::size_t first, std::size_t count) {
    const std::size_t width = actions.size() / values.size();
    return {std::span(env_actions).subspan(first * width, count * width),
            std::span(actions).subspan(first * width, count * width),
            std::span(log_probs).subspan(first, count), std::span(values).subspan(first, count)};
  }
  std::vector<float> env_actions, actions, log_probs, values;
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}
bool same_bits(const Acted& a, const Acted& b) {
  return same_bits(a.env_actions, b.env_actions) && same_bits(a.actions, b.actions) &&
         same_bits(a.log_probs, b.log_probs) && same_bits(a.values, b.values);
}

std::vector<float> normals(std::size_t n, unsigned seed, float scale = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(n);
  for (float& x : out) x = scale * normal(generator);
  return out;
}

void perturb(Policy& policy, float scale = 0.1f) {
  const auto noise = normals(policy.parameters().size(), 5, scale);
  for (std::size_t i = 0; i < noise.size(); ++i) policy.parameters()[i] += noise[i];
  policy.parameters_changed();
}

}  // namespace

TEST_CASE("values, densities and samples equal a naive network in double") {
  for (const Activation activation : {Activation::tanh, Activation::relu, Activation::elu})
    for (const bool shared : {false, true}) {
      const MlpPolicyOptions options{
          .hidden = {33, 20}, .activation = activation, .shared_trunk = shared};
      const auto policy = make_mlp_policy(box(11, 3), options, 2);
      perturb(*policy);
      const auto observations = normals(70 * 11, 1, 3);
      policy->observation_moments()->add(normals(90 * 11, 2, 2));
      Acted out(*policy, 70);
      policy->act({.observations = observations, .seed = 9, .first_id = 5, .step = 4}, out.all());
      Acted mode(*policy, 70);
      policy->act({.observations = observations, .deterministic = true}, mode.all());
      std::vector<float> values(70);
      policy->value(observations, values);
      CHECK(same_bits(values, out.values));

      const Reference reference(*policy, options);
      for (std::size_t r = 0; r < 70; ++r) {
        const float* row = &observations[r * 11];
        const std::vector<double> mean = reference.actor(row);
        CHECK(out.values[r] ==
              doctest::Approx(reference.value(row)).epsilon(kForwardTolerance).scale(1));
        CHECK(out.log_probs[r] ==
              doctest::Approx(reference.log_prob(mean, &out.actions[r * 3], nullptr))
                  .epsilon(2 * kForwardTolerance)
                  .scale(1));
        // noise of row r: stream action, id first_id + r, episode = step
        Rng rng(9, Stream::action, 5 + static_cast<std::uint32_t>(r), 4);
        for (std::size_t i = 0; i < 3; ++i) {
          const double sample = mean[i] + std::exp(reference.log_std(i)) * rng.normal();
          CHECK(out.actions[r * 3 + i] ==
                doctest::Approx(sample).epsilon(kForwardTolerance).scale(1));
          CHECK(out.env_actions[r * 3 + i] == std::clamp(out.actions[r * 3 + i], -1.0f, 1.0f));
          CHECK(mode.actions[r * 3 + i] ==
                doctest::Approx(mean[i]).epsilon(kForwardTolerance).scale(1));
        }
      }
    }
}

TEST_CASE("tanh and elu are accurate over their whole range") {
  for (const Activation activation : {Activation::tanh, Activation::elu}) {
    const auto policy = make_mlp_policy(
        box(1, 1), {.hidden = {1}, .activation = activation, .normalize_observations = false}, 1);
    // the value is f(x): one hidden unit between two weights of 1
    for (const ParameterView& view : policy->parameter_views())
      policy->parameters()[view.offset] = view.name.ends_with(".weight") ? 1.0f : 0.0f;
    policy->parameters_changed();
    std::vector<float> x;
    for (float magnitude = 1e-6f; magnitude < 200; magnitude *= 1.003f) {
      x.push_back(magnitude);
      x.push_back(-magnitude);
    }
    std::vector<float> y(x.size());
    policy->value(x, y);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = activation == Activation::tanh ? std::tanh(static_cast<double>(x[i]))
                           : x[i] > 0                     ? static_cast<double>(x[i])
                                                          : std::expm1(static_cast<double>(x[i]));
      worst = std::max(worst, std::abs(y[i] - exact) / std::abs(exact));
    }
    CHECK(worst <= 7 * 6e-8);  // a few units in the last place
  }
}

TEST_CASE("each row's result depends on nothing but the row: batch splits and threads") {
  for (const bool is_discrete : {false, true})
    for (const bool shared : {false, true}) {
      const Spec spec = is_discrete ? discrete(17, 5) : box(17, 6);
      const auto policy = make_mlp_policy(spec, {.hidden = {64, 41}, .shared_trunk = shared}, 2);
      perturb(*policy);
      const std::size_t rows = 203;
      const auto observations = normals(rows * 17, 1);
      policy->observation_moments()->add(observations);
      Acted whole(*policy, rows);
      policy->act({.observations = observations, .seed = 3, .step = 8}, whole.all());
      for (const int num_threads : {1, 2, 5}) {
        policy->set_threads(make_threads(num_threads));
        Acted out(*policy, rows);
        policy->act({.observations = observations, .seed = 3, .step = 8}, out.all());
        CHECK(same_bits(out, whole));
        std::vector<float> values(rows);
        policy->value(observations, values);
        CHECK(same_bits(values, whole.values));
      }
      for (const std::size_t size : {1u, 3u, 7u, 64u, 100u}) {
        Acted out(*policy, rows);
        for (std::size_t first = 0; first < rows; first += size) {
          const std::size_t count = std::min(size, rows - first);
          policy->act({.observations = std::span(observations).subspan(first * 17, count * 17),
                       .seed = 3,
                       .first_id = static_cast<std::uint32_t>(first),
                       .step = 8},
                      out.part(first, count));
        }
        CHECK(same_bits(out, whole));
      }
    }
}

TEST_CASE("gradients have the same bits for 1, 2 and 5 threads") {
  for (const bool shared : {false, true})
    for (const std::size_t size : {1u, 64u, 65u, 300u, 1500u}) {
      const auto policy = make_mlp_policy(box(17, 6), {.hidden = {37}, .shared_trunk = shared}, 2);
      perturb(*policy);
      const RandomSamples samples(*policy, 400, 6);
      std::vector<std::int32_t> indices(size);
      for (std::size_t i = 0; i < size; ++i) indices[i] = static_cast<std::int32_t>(i * 7 % 400);
      std::vector<float> expected;
      LossStatistics expected_sums;
      for (const int num_threads : {0, 1, 2, 5}) {
        if (num_threads > 0) policy->set_threads(make_threads(num_threads));
        std::ranges::fill(policy->gradients(), 0.0f);
        const LossStatistics sums = policy->backward(samples.view(), indices, {}, 1);
        if (num_threads == 0) {
          expected.assign(policy->gradients().begin(), policy->gradients().end());
          expected_sums = sums;
        }
        CHECK(same_bits(policy->gradients(), expected));
        CHECK(sums.policy_loss == expected_sums.policy_loss);
        CHECK(sums.value_loss == expected_sums.value_loss);
        CHECK(sums.approx_kl == expected_sums.approx_kl);
      }
    }
}

TEST_CASE("right after act every ratio is 1") {
  for (const bool is_discrete : {false, true}) {
    const auto policy = make_mlp_policy(is_discrete ? discrete(9, 4) : box(9, 11), {}, 2);
    perturb(*policy, 0.3f);
    policy->observation_moments()->add(normals(50 * 9, 4));
    RandomSamples samples(*policy, 200, 3, is_discrete);
    samples.log_probs = samples.fresh_log_probs;
    std::vector<std::int32_t> indices(200);
    std::iota(indices.rbegin(), indices.rend(), 0);
    // without a clip range a ratio that is not exactly 1 is counted
    const LossStatistics sums = policy->backward(samples.view(), indices, {.clip_range = 0}, 1);
    CHECK(sums.clip_fraction == 0);
    CHECK(sums.approx_kl == 0);
  }
}

TEST_CASE("both kernel tables give the same bits") {
  if (std::string_view(kernels::in_use().name) != "x86-64-v4") return;
  for (const int rows : {1, 5, 13, 64})
    for (const int inputs : {1, 17, 40, 128})
      for (const int outputs : {1, 6, 24, 57, 64}) {
        const int x_stride = kernels::stride_of(inputs), y_stride = kernels::stride_of(outputs);
        const int wide = kernels::padded(inputs), high = kernels::padded(outputs);
        const auto floats = [](int a, int b) {
          return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
        };
        const auto x = normals(floats(rows, x_stride), 1), dz = normals(floats(rows, y_stride), 2);
        const auto weight = normals(floats(outputs, inputs), 3, 0.3f),
                   bias = normals(floats(1, high), 4);
        const auto run = [&](const kernels::Kernels& table) {
          std::vector<float> panels(floats(inputs, high)), back(floats(outputs, wide));
          table.pack_transposed(weight.data(), outputs, inputs, 0, high, panels.data());
          table.pack(weight.data(), 0, outputs, outputs, inputs, back.data());
          std::vector<float> all;
          std::vector<float> one(static_cast<std::size_t>(rows));
          table.forward_one(x.data(), x_stride, rows, wide, x.data(), 0.5f, one.data(), 1);
          all.insert(all.end(), one.begin(), one.end());
          for (const int nonlinearity : {0, 1, 2, 3}) {
            std::vector<float> y(floats(rows, y_stride)), dx(floats(rows, x_stride)),
                gradient(floats(outputs, wide)), sums(floats(1, high));
            table.forward(x.data(), x_stride, rows, inputs, panels.data(), bias.data(), high,
                          nonlinearity, y.data(), y_stride);
            table.backward(dz.data(), y_stride, rows, outputs, back.data(), wide, nonlinearity,
                           x.data(), x_stride, dx.data(), x_stride);
            table.weight_gradient(dz.data(), y_stride, x.data(), x_stride, rows, outputs, inputs,
                                  false, gradient.data());
            table.bias_gradient(dz.data(), y_stride, rows, high, false, sums.data());
            table.weight_gradient(dz.data(), y_stride, x.data(), x_stride, rows, outputs, inputs,
                                  true, gradient.data());
            table.bias_gradient(dz.data(), y_stride, rows, high, true, sums.data());
            for (const auto* part : {&y, &dx, &gradient, &sums})
              all.insert(all.end(), part->begin(), part->end());
          }
          return all;
        };
        CHECK(same_bits(run(kernels::kBaseline), run(kernels::kAvx512)));
      }
}

TEST_CASE("discrete actions follow the probabilities and the mask") {
  const auto policy = make_mlp_policy(discrete(2, 4), {.hidden = {8}, .policy_gain = 3}, 4);
  const std::size_t rows = 20000;
  std::vector<float> observations;
  std::vector<std::uint8_t> masks;
  for (std::size_t i = 0; i < rows; ++i) {
    observations.insert(observations.end(), {0.7f, -1.1f});
    masks.insert(masks.end(), {1, 0, 1, 1});
  }
  Acted out(*policy, rows);
  policy->act({.observations = observations, .action_masks = masks, .seed = 1}, out.all());
  const Reference reference(*policy, {.hidden = {8}});
  const auto p = Reference::softmax(reference.actor(observations.data()), masks.data());
  std::array<double, 4> counts{};
  for (float a : out.actions) counts[static_cast<std::size_t>(a)] += 1;
  CHECK(counts[1] == 0);
  for (std::size_t a = 0; a < 4; ++a)
    CHECK(counts[a] / rows == doctest::Approx(p[a]).scale(1).epsilon(0.015));
  policy->act({.observations = observations, .action_masks = masks, .deterministic = true},
              out.all());
  CHECK(out.actions[0] == static_cast<float>(std::ranges::max_element(p) - p.begin()));

  masks[9] = masks[8] = masks[10] = masks[11] = 0;
  CHECK_THROWS_WITH_AS(
      policy->act({.observations = observations, .action_masks = masks}, out.all()),
      "action_masks forbids every action in row 2", InvalidArgument);
}

TEST_CASE("layout and initialisation") {
  const auto names = [](const Policy& policy) {
    std::string all;
    for (const ParameterView& view : policy.parameter_views()) {
      all += view.name;
      for (std::int64_t n : view.shape) all += ' ' + std::to_string(n);
      all += '\n';
    }
    return all;
  };
  const auto separate = make_mlp_policy(box(5, 2), {.hidden = {16, 4}, .log_std_init = -0.5f}, 1);
  CHECK(names(*separate) ==
        "actor.0.weight 16 5\nactor.0.bias 16\nactor.1.weight 4 16\nactor.1.bias 4\n"
        "actor.2.weight 2 4\nactor.2.bias 2\ncritic.0.weight 16 5\ncritic.0.bias 16\n"
        "critic.1.weight 4 16\ncritic.1.bias 4\ncritic.2.weight 1 4\ncritic.2.bias 1\nlog_std 2\n");
  const auto shared = make_mlp_policy(discrete(5, 3), {.hidden = {6}, .shared_trunk = true}, 1);
  CHECK(names(*shared) ==
        "trunk.0.weight 6 5\ntrunk.0.bias 6\nactor.weight 3 6\nactor.bias 3\n"
        "critic.weight 1 6\ncritic.bias 1\n");

  for (const auto& policy : {separate, shared})
    for (const ParameterView& view : policy->parameter_views()) {
      const auto w = policy->parameters().subspan(view.offset, view.size);
      if (view.shape.size() == 1) {
        for (float x : w) CHECK(x == (view.name == "log_std" ? -0.5f : 0.0f));
        continue;
      }
      const bool head = view.name.starts_with("actor.2") || view.name == "actor.weight";
      const bool value = view.name.starts_with("critic.2") || view.name == "critic.weight";
      const double gain = head ? 0.01 : value ? 1.0 : std::sqrt(2.0);
      // the shorter side is orthogonal with length `gain`
      const auto rows = static_cast<std::size_t>(view.shape[0]);
      const auto columns = static_cast<std::size_t>(view.shape[1]);
      const bool wide = rows <= columns;
      const std::size_t n = std::min(rows, columns), length = std::max(rows, columns);
      for (std::size_t a = 0; a < n; ++a)
        for (std::size_t b = 0; b <= a; ++b) {
          double dot = 0;
          for (std::size_t k = 0; k < length; ++k)
            dot += static_cast<double>(wide ? w[a * columns + k] : w[k * columns + a]) *
                   static_cast<double>(wide ? w[b * columns + k] : w[k * columns + b]);
          CHECK(dot / (gain * gain) == doctest::Approx(a == b ? 1 : 0).scale(1).epsilon(1e-6));
        }
    }
  const auto again = make_mlp_policy(box(5, 2), {.hidden = {16, 4}, .log_std_init = -0.5f}, 1);
  const auto other = make_mlp_policy(box(5, 2), {.hidden = {16, 4}, .log_std_init = -0.5f}, 2);
  CHECK(same_bits(again->parameters(), separate->parameters()));
  CHECK_FALSE(same_bits(other->parameters(), separate->parameters()));
}

TEST_CASE("acting and evaluating change neither moments nor parameters, and allocate nothing") {
  const auto policy = make_mlp_policy(box(17, 6), {}, 1);
  const auto observations = normals(64 * 17, 1);
  policy->observation_moments()->add(observations);
  const RunningMoments moments = *policy->observation_moments();
  const std::vector<float> parameters(policy->parameters().begin(), policy->parameters().end());
  Acted out(*policy, 64);
  policy->act({.observations = observations}, out.all());
  const long before = test::num_allocations;
  for (std::uint32_t step = 0; step < 1000; ++step)
    policy->act({.observations = observations, .step = step}, out.all());
  policy->value(observations, out.values);
  CHECK(test::num_allocations == before);
  CHECK(moments.count() == policy->observation_moments()->count());
  CHECK(std::ranges::equal(moments.mean(), policy->observation_moments()->mean()));
  CHECK(moments.variance(3) == policy->observation_moments()->variance(3));
  CHECK(same_bits(parameters, policy->parameters()));
}

TEST_CASE("wrong sizes and options are refused by name") {
  const auto policy = make_mlp_policy(box(3, 2), {.hidden = {4}}, 1);
  std::vector<float> observations(6), actions(4), wrong(5);
  CHECK_THROWS_WITH_AS(policy->act({.observations = wrong}, {.env_actions = actions}),
                       "observations must hold a multiple of 3 numbers, got 5", InvalidArgument);
  CHECK_THROWS_WITH_AS(policy->act({.observations = observations}, {.env_actions = wrong}),
                       "env_actions must hold 4 numbers, got 5", InvalidArgument);
  CHECK_THROWS_AS(policy->value(observations, wrong), InvalidArgument);
  const RandomSamples samples(*policy, 4, 1);
  CHECK_THROWS_WITH_AS(policy->backward(samples.view(), std::array<std::int32_t, 1>{4}, {}, 1),
                       "indices must be in [0, 4), got 4", InvalidArgument);
  CHECK(policy->backward(samples.view(), {}, {}, 1).num_samples == 0);
  const auto chooser =
      make_mlp_policy({.observation_size = 3, .action = Discrete{2}}, {.hidden = {4}}, 1);
  for (const float action : {2.0f, -1.0f, std::nanf("")}) {
    const std::vector<float> chosen{action}, numbers(1);
    CHECK_THROWS_WITH_AS(chooser->backward({.observations = std::span(observations).first(3),
                                            .actions = chosen,
                                            .log_probs = numbers,
                                            .values = numbers,
                                            .advantages = numbers,
                                            .returns = numbers},
                                           std::array<std::int32_t, 1>{0}, {}, 1),
                         doctest::Contains("samples.actions must be one of 0 .. 1"),
                         InvalidArgument);
  }
  CHECK_THROWS_WITH_AS(make_mlp_policy(box(3, 2), {.hidden = {0}}),
                       "hidden must be in [1, 65536], got 0", InvalidArgument);
  CHECK_THROWS_AS(make_mlp_policy(box(3, 2), {.log_std_init = std::nanf("")}), InvalidArgument);
  CHECK_THROWS_AS(make_mlp_policy(box(3, 2), {.hidden = {65536, 65536}}), InvalidArgument);
}
