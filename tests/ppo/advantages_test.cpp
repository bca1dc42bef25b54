// Advantages against numbers worked out by hand and against the definition, written as a sum per
// row.

#include "canter/ppo/advantages.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "canter/base/error.hpp"
#include "canter/base/rng.hpp"
#include "canter/base/spec.hpp"
#include "canter/ppo/rollout.hpp"

namespace {

using canter::AdvantageInput;
using canter::TruncationHandling;

constexpr double kGamma = 0.99, kLambda = 0.95;
constexpr double kRelativeTolerance = 1e-4;  // float32 sums over a horizon

struct Case {
  int horizon, num_envs;
  std::vector<float> rewards, values, final_values;
  std::vector<std::uint8_t> terminated, truncated;
  std::vector<float> advantages, returns;

  Case(int horizon, int num_envs) : horizon(horizon), num_envs(num_envs) {
    const auto n = static_cast<std::size_t>(horizon * num_envs);
    rewards.resize(n), final_values.resize(n), terminated.resize(n), truncated.resize(n);
    advantages.resize(n), returns.resize(n);
    values.resize(n + static_cast<std::size_t>(num_envs));
  }
  AdvantageInput input() const {
    return {horizon, num_envs, rewards, values, terminated, truncated, final_values};
  }
  void compute(TruncationHandling truncation = TruncationHandling::bootstrap) {
    canter::compute_advantages(input(), {float(kGamma), float(kLambda), truncation}, advantages,
                               returns);
  }
};

// four rows with a value that betrays a shifted flag
Case four_rows() {
  Case c(4, 1);
  c.rewards = {1, 1, 1, 1};
  c.values = {2, 3, 100, 4, 5};
  return c;
}

void check_rows(const Case& c, const std::vector<double>& expected) {
  for (std::size_t t = 0; t < expected.size(); ++t) {
    CAPTURE(t);
    CHECK(c.advantages[t] == doctest::Approx(expected[t]).epsilon(kRelativeTolerance));
    CHECK(c.returns[t] ==
          doctest::Approx(expected[t] + double(c.values[t])).epsilon(kRelativeTolerance));
  }
}

// A_t = sum over l of (gamma lambda)^l delta_{t+l}, up to the end of the episode, one environment
// at a time, forwards, in double
std::vector<double> naive(const Case& c, TruncationHandling truncation) {
  std::vector<double> advantages(c.rewards.size());
  const auto N = static_cast<std::size_t>(c.num_envs), T = static_cast<std::size_t>(c.horizon);
  for (std::size_t env = 0; env < N; ++env)
    for (std::size_t start = 0; start < T; ++start) {
      double sum = 0, weight = 1;
      for (std::size_t t = start; t < T; ++t) {
        const std::size_t i = t * N + env;
        const bool is_end = c.terminated[i] || c.truncated[i];
        double follow = double(c.values[i + N]);
        if (is_end) follow = 0;
        if (c.truncated[i] && !c.terminated[i]) {
          if (truncation == TruncationHandling::mask) break;  // nothing is known from here on
          if (truncation == TruncationHandling::bootstrap) follow = double(c.final_values[i]);
        }
        sum += weight * (double(c.rewards[i]) + kGamma * follow - double(c.values[i]));
        if (is_end) break;
        weight *= kGamma * kLambda;
      }
      advantages[start * N + env] = sum;
    }
  return advantages;
}

}  // namespace

TEST_CASE("the numeric oracle: no end, ends at row 1 and at row 3") {
  Case c = four_rows();
  SUBCASE("no end") {
    c.compute();
    check_rows(c, {10.7540, 9.3397, -93.2060, 1.9500});
  }
  SUBCASE("terminated at row 1") {
    c.terminated = {0, 1, 0, 0};
    c.compute();
    check_rows(c, {0.0890, -2.0000, -93.2060, 1.9500});
  }
  SUBCASE("terminated at row 3") {
    c.terminated = {0, 0, 0, 1};
    c.compute();
    check_rows(c, {6.6361, 4.9613, -97.8615, -3.0000});
  }
  SUBCASE("truncated at row 1, V(final observation) = 7") {
    // row 1: 1 + 0.99 * 7 - 3 = 4.93; row 0: 1 + 0.99 * 3 - 2 + 0.9405 * 4.93 = 6.606665
    c.truncated = {0, 1, 0, 0};
    c.final_values = {NAN, 7, NAN, NAN};
    c.compute();
    check_rows(c, {6.606665, 4.93, -93.2060, 1.9500});
  }
  SUBCASE(
      "truncated at row 3, V(final observation) = 7: the last row of values is another episode's") {
    // row 3: 1 + 6.93 - 4 = 3.93; row 2: 1 + 3.96 - 100 + 0.9405 * 3.93 = -91.343835
    c.truncated = {0, 0, 0, 1};
    c.final_values = {NAN, NAN, NAN, 7};
    c.compute();
    check_rows(c, {12.4011867, 11.0911235, -91.343835, 3.93});
  }
  SUBCASE("terminated and truncated at once: terminated") {
    c.terminated = c.truncated = {0, 1, 0, 0};
    c.compute();
    check_rows(c, {0.0890, -2.0000, -93.2060, 1.9500});
    CHECK_FALSE(is_masked(c.input(), TruncationHandling::mask, 1));
  }
  SUBCASE("terminal: a time limit is an end") {
    c.truncated = {0, 1, 0, 0};
    c.compute(TruncationHandling::terminal);
    check_rows(c, {0.0890, -2.0000, -93.2060, 1.9500});
  }
  SUBCASE("mask: the row teaches nothing, the row before it ends with V of the masked row") {
    // row 0: 1 + 0.99 * 3 - 2 = 1.97
    c.truncated = {0, 1, 0, 0};
    c.compute(TruncationHandling::mask);
    check_rows(c, {1.97, 0, -93.2060, 1.9500});
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(is_masked(c.input(), TruncationHandling::mask, i) == (i == 1));
  }
}

TEST_CASE("all endings mixed over many environments equal the definition") {
  canter::Rng rng(3, canter::Stream::environment, 0, 0);
  for (const auto& [horizon, num_envs] : {std::pair{1, 1}, {1, 5}, {37, 1}, {64, 13}}) {
    for (const auto truncation :
         {TruncationHandling::bootstrap, TruncationHandling::terminal, TruncationHandling::mask}) {
      Case c(horizon, num_envs);
      for (float& x : c.rewards) x = float(rng.normal());
      for (float& x : c.values) x = float(rng.normal(0, 10));
      for (float& x : c.final_values) x = float(rng.normal(0, 10));
      for (auto& x : c.terminated) x = rng.uniform() < 0.1;
      for (auto& x : c.truncated) x = rng.uniform() < 0.1;
      c.compute(truncation);
      const std::vector<double> expected = naive(c, truncation);
      double worst = 0;
      for (std::size_t i = 0; i < expected.size(); ++i)
        worst = std::max({worst, std::abs(double(c.advantages[i]) - expected[i]),
                          std::abs(double(c.returns[i]) - expected[i] - double(c.values[i]))});
      CHECK(worst <= kRelativeTolerance * 10);
    }
  }
}

TEST_CASE("all rows terminal: the advantage is r - V") {
  Case c(5, 3);
  for (std::size_t i = 0; i < 15; ++i) c.rewards[i] = float(i), c.values[i] = float(100 - i);
  c.terminated.assign(15, 1);
  c.compute();
  for (std::size_t i = 0; i < 15; ++i) CHECK(c.advantages[i] == c.rewards[i] - c.values[i]);
}

TEST_CASE("spans of wrong sizes are refused by name") {
  Case c(4, 2);
  c.values.pop_back();
  CHECK_THROWS_WITH_AS(c.compute(), "compute_advantages: values must hold 10 numbers, got 9",
                       canter::InvalidArgument);
  c.horizon = 0;
  CHECK_THROWS_AS(c.compute(), canter::InvalidArgument);
}
