// Every sample is in exactly one minibatch of every epoch; sizes and moments against plain loops.

#include "ppo/minibatches.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "canter/base/rng.hpp"

using canter::AdvantageInput;
using canter::TruncationHandling;
using canter::detail::Minibatches;

namespace {

struct Rows {
  explicit Rows(std::size_t n) : rewards(n), terminated(n), truncated(n) {}
  AdvantageInput input() const {
    return {.horizon = static_cast<int>(rewards.size()),
            .num_envs = 1,
            .rewards = rewards,
            .values = {},
            .terminated = terminated,
            .truncated = truncated,
            .final_values = {}};
  }
  std::vector<float> rewards;
  std::vector<std::uint8_t> terminated, truncated;
};

std::vector<std::int32_t> all_of(const Minibatches& minibatches, int epoch, int count) {
  std::vector<std::int32_t> all;
  for (int j = 0; j < count; ++j)
    for (const std::int32_t i : minibatches.indices(epoch, j)) all.push_back(i);
  return all;
}

}  // namespace

TEST_CASE("nothing is dropped, nothing comes twice, sizes differ by at most one") {
  for (const auto& [num_samples, count] :
       {std::pair{9, 2}, {9, 8}, {1, 1}, {3, 8}, {2048, 32}, {1000, 7}}) {
    const Rows rows(static_cast<std::size_t>(num_samples));
    Minibatches minibatches(3, count);
    minibatches.shuffle(rows.input(), TruncationHandling::bootstrap, 1, 0);
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::size_t smallest = 1u << 30, largest = 0;
      for (int j = 0; j < count; ++j) {
        smallest = std::min(smallest, minibatches.indices(epoch, j).size());
        largest = std::max(largest, minibatches.indices(epoch, j).size());
      }
      CHECK(largest - smallest <= 1);
      std::vector<std::int32_t> all = all_of(minibatches, epoch, count);
      std::sort(all.begin(), all.end());
      std::vector<std::int32_t> expected(static_cast<std::size_t>(num_samples));
      std::iota(expected.begin(), expected.end(), 0);
      CHECK(all == expected);
    }
  }
}

TEST_CASE("the order depends on seed, epoch and iteration, and on nothing else") {
  const Rows rows(100);
  const auto order = [&](std::uint64_t seed, std::int64_t iteration, int epoch, int count) {
    Minibatches minibatches(2, count);
    minibatches.shuffle(rows.input(), TruncationHandling::bootstrap, seed, iteration);
    return all_of(minibatches, epoch, count);
  };
  CHECK(order(1, 5, 0, 4) == order(1, 5, 0, 7));
  CHECK(order(1, 5, 0, 4) != order(1, 5, 1, 4));
  CHECK(order(1, 5, 0, 4) != order(1, 6, 0, 4));
  CHECK(order(1, 5, 0, 4) != order(2, 5, 0, 4));
}

TEST_CASE("masked samples are in no minibatch") {
  Rows rows(20);
  rows.truncated[3] = rows.truncated[7] = rows.truncated[19] = 1;
  rows.terminated[7] = 1;  // a termination is known
  for (const auto truncation : {TruncationHandling::mask, TruncationHandling::bootstrap}) {
    Minibatches minibatches(1, 3);
    minibatches.shuffle(rows.input(), truncation, 1, 0);
    std::vector<std::int32_t> all = all_of(minibatches, 0, 3);
    const bool masks = truncation == TruncationHandling::mask;
    CHECK(all.size() == (masks ? 18 : 20));
    CHECK(std::count(all.begin(), all.end(), 3) == !masks);
    CHECK(std::count(all.begin(), all.end(), 19) == !masks);
    CHECK(std::count(all.begin(), all.end(), 7) == 1);
  }
}

TEST_CASE("moments of each minibatch, and the explained variance, against two-pass loops") {
  constexpr int kNumSamples = 103;
  const Rows rows(kNumSamples);
  canter::Rng rng(2, canter::Stream::environment, 0, 0);
  std::vector<float> advantages, returns;
  for (int i = 0; i < kNumSamples; ++i) advantages.push_back(float(rng.normal(50, 2)));
  for (int i = 0; i < kNumSamples; ++i) returns.push_back(float(rng.normal(-20, 7)));
  const auto communicator = canter::Communicator::single();
  Minibatches minibatches(2, 5);
  minibatches.shuffle(rows.input(), TruncationHandling::bootstrap, 1, 0);
  minibatches.gather_moments(advantages, returns, 0, *communicator);
  const auto mean_and_variance = [](const std::vector<double>& x) {
    double mean = 0, variance = 0;
    for (const double value : x) mean += value / double(x.size());
    for (const double value : x) variance += (value - mean) * (value - mean) / double(x.size() - 1);
    return std::pair(mean, variance);
  };
  for (int epoch = 0; epoch < 2; ++epoch)
    for (int j = 0; j < 5; ++j) {
      std::vector<double> x;
      for (const std::int32_t i : minibatches.indices(epoch, j))
        x.push_back(double(advantages[static_cast<std::size_t>(i)]));
      const auto [mean, variance] = mean_and_variance(x);
      CHECK(minibatches.num_samples(epoch, j) == static_cast<std::int64_t>(x.size()));
      CHECK(minibatches.advantage_mean(epoch, j) == doctest::Approx(mean).epsilon(1e-6));
      CHECK(minibatches.advantage_scale(epoch, j) ==
            doctest::Approx(1 / (std::sqrt(variance) + 1e-8)).epsilon(1e-5));
    }
  const std::vector<double> a(advantages.begin(), advantages.end()),
      r(returns.begin(), returns.end());
  CHECK(
      minibatches.explained_variance() ==
      doctest::Approx(1 - mean_and_variance(a).second / mean_and_variance(r).second).epsilon(1e-6));
}

TEST_CASE("advantages that differ in their last bit alone are not blown up") {
  const auto communicator = canter::Communicator::single();
  for (const float advantage : {1.0f, -100.0f, 1e6f}) {
    const Rows rows(8);
    std::vector<float> near(8, advantage);
    near[3] = near[5] = std::nextafter(advantage, 2e6f);
    Minibatches minibatches(1, 1);
    minibatches.shuffle(rows.input(), TruncationHandling::bootstrap, 1, 0);
    minibatches.gather_moments(near, near, 0, *communicator);
    for (const float x : near) {
      const float normalised =
          (x - minibatches.advantage_mean(0, 0)) * minibatches.advantage_scale(0, 0);
      CHECK(std::abs(normalised) < 3);
    }
  }
}

TEST_CASE("one sample, and equal advantages, become exactly 0") {
  const auto communicator = canter::Communicator::single();
  for (const int num_samples : {1, 2, 7}) {
    for (const float advantage : {0.0f, 0.1f, -3.3e6f, 1e-20f}) {
      const Rows rows(static_cast<std::size_t>(num_samples));
      const std::vector<float> same(static_cast<std::size_t>(num_samples), advantage);
      Minibatches minibatches(1, 1);
      minibatches.shuffle(rows.input(), TruncationHandling::bootstrap, 1, 0);
      minibatches.gather_moments(same, same, 0, *communicator);
      const float normalised =
          (advantage - minibatches.advantage_mean(0, 0)) * minibatches.advantage_scale(0, 0);
      CHECK(normalised == 0.0f);
      CHECK(minibatches.explained_variance() == 0);
    }
  }
}
