// Adam and the norm clip against the formulas of the paper in double.

#include "ppo/adam.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "canter/base/error.hpp"
#include "canter/base/rng.hpp"
#include "ppo/kernels_adam.hpp"

using canter::detail::Adam;
using canter::detail::AdamOptions;

namespace {

std::vector<float> random_numbers(std::size_t n, std::uint32_t id) {
  canter::Rng rng(5, canter::Stream::environment, id, 0);
  std::vector<float> numbers(n);
  for (float& x : numbers) x = float(rng.normal() * std::pow(10, rng.uniform(-6, 2)));
  return numbers;
}

// Kingma, Ba 2015, algorithm 1
struct NaiveAdam {
  std::vector<double> parameters, m, v;
  int t = 0;

  void step(const std::vector<float>& gradients, double scale, double rate, double epsilon) {
    ++t;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const double g = double(gradients[i]) * scale;
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      const double m_hat = m[i] / (1 - std::pow(0.9, t)), v_hat = v[i] / (1 - std::pow(0.999, t));
      parameters[i] -= rate * m_hat / (std::sqrt(v_hat) + epsilon);
    }
  }
};

}  // namespace

TEST_CASE("a hundred steps equal the paper's formulas") {
  constexpr std::size_t kSize = 1037;  // no multiple of any tile
  const auto threads = canter::make_single_thread();
  std::vector<float> parameters = random_numbers(kSize, 0);
  NaiveAdam naive{{parameters.begin(), parameters.end()},
                  std::vector<double>(kSize),
                  std::vector<double>(kSize)};
  Adam adam(kSize);
  for (std::uint32_t t = 1; t <= 100; ++t) {
    std::vector<float> gradients = random_numbers(kSize, t);
    const double rate = 1e-3 / t, scale = 1.0 / (1 + t % 3);
    naive.step(gradients, scale, rate, 1e-5);
    adam.step(parameters, gradients, float(scale), AdamOptions{.learning_rate = rate}, *threads);
    CHECK(gradients == std::vector<float>(kSize));  // used up
  }
  // float32 parameters keep 24 bits; steps are at most 1e-3 in size
  double worst = 0;
  for (std::size_t i = 0; i < kSize; ++i)
    worst = std::max(worst, std::abs(double(parameters[i]) - naive.parameters[i]) /
                                (1e-5 + std::abs(naive.parameters[i])));
  CHECK(worst <= 2e-5);
}

TEST_CASE("the norm is that of all gradients, even where squares overflow float32") {
  const auto threads = canter::make_single_thread();
  for (const std::size_t size : {1u, 15u, 1024u, 70001u}) {
    std::vector<float> gradients = random_numbers(size, 3);
    double sum = 0;
    for (const float g : gradients) sum += double(g) * double(g);
    Adam adam(size);
    CHECK(adam.norm(gradients, *threads) == doctest::Approx(std::sqrt(sum)).epsilon(1e-6));
    gradients[size / 2] = 1e30f;
    CHECK(adam.norm(gradients, *threads) == doctest::Approx(1e30).epsilon(1e-6));
    std::vector<float> tiny(size, 1e-25f);
    CHECK(adam.norm(tiny, *threads) ==
          doctest::Approx(1e-25 * std::sqrt(double(size))).epsilon(1e-6).scale(0));
    gradients[size / 2] = std::numeric_limits<float>::quiet_NaN();
    CHECK_FALSE(std::isfinite(adam.norm(gradients, *threads)));
  }
}

TEST_CASE("the same bits for 1, 2 and 5 threads") {
  constexpr std::size_t kSize = 100003;
  std::vector<float> expected;
  double expected_norm = 0;
  for (const int num_threads : {1, 2, 5}) {
    const auto threads = canter::make_threads(num_threads);
    std::vector<float> parameters = random_numbers(kSize, 0);
    Adam adam(kSize);
    double norm = 0;
    for (std::uint32_t t = 1; t <= 5; ++t) {
      std::vector<float> gradients = random_numbers(kSize, t);
      norm += adam.norm(gradients, *threads);
      adam.step(parameters, gradients, 0.5f, AdamOptions{.learning_rate = 1e-3}, *threads);
    }
    if (num_threads == 1) expected = parameters, expected_norm = norm;
    const bool same = std::memcmp(parameters.data(), expected.data(), kSize * sizeof(float)) == 0 &&
                      norm == expected_norm;
    CHECK(same);
  }
}

TEST_CASE("moments of a gradient that is gone end at zero instead of denormal numbers") {
  std::vector<float> parameters(8, 1), gradients(8, 1e-3f), first(8), second(8);
  for (int t = 1; t <= 100000; ++t)
    canter::kernels::adam_step(parameters.data(), gradients.data(), first.data(), second.data(), 8,
                               {1, 0.9f, 0.999f, 1e-4f, 1, 1e-5f});
  CHECK(first == std::vector<float>(8));
  CHECK(second == std::vector<float>(8));
}

TEST_CASE("usable numbers are finite and their squares fit float32") {
  std::vector<float> numbers(37, 1.0f);
  CHECK(canter::kernels::all_usable(numbers.data(), numbers.size()));
  using Limits = std::numeric_limits<float>;
  for (const float bad :
       {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), 1e30f, -2e18f})
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = bad;
      CHECK_FALSE(canter::kernels::all_usable(numbers.data(), numbers.size()));
      numbers[i] = -1e18f;
    }
}

TEST_CASE("saved and loaded, it continues with the same bits; what does not fit changes nothing") {
  constexpr std::size_t kSize = 100;
  const auto threads = canter::make_single_thread();
  const auto run = [&](Adam& adam, std::vector<float>& parameters, std::uint32_t first,
                       std::uint32_t last) {
    for (std::uint32_t t = first; t <= last; ++t) {
      std::vector<float> gradients = random_numbers(kSize, t);
      adam.step(parameters, gradients, 1, AdamOptions{.learning_rate = 1e-3}, *threads);
    }
  };
  Adam straight(kSize), before(kSize), after(kSize), other(kSize + 1);
  std::vector<float> expected(kSize), parameters(kSize);
  run(straight, expected, 1, 20);
  run(before, parameters, 1, 10);
  canter::StateDict state;
  before.save(state);
  after.load(state);
  run(after, parameters, 11, 20);
  CHECK(parameters == expected);
  CHECK_THROWS_AS(other.load(state), canter::CheckpointError);
}
