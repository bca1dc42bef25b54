#include "canter/base/rng.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "canter/base/error.hpp"

using namespace canter;

TEST_CASE("philox4x32 gives Random123's known answers") {
  // kat_vectors of Random123 1.14: philox4x32 10 rounds
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) ==
        std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("the counter layout is block, episode, id, stream under the seed") {
  Rng rng(0x299f31d0a4093822, Stream::shuffle, 17, 9);
  for (std::uint32_t block = 0; block < 3; ++block)
    for (std::uint32_t word : philox4x32({block, 9, 17, 2}, {0xa4093822, 0x299f31d0}))
      CHECK(rng.bits() == word);
}

TEST_CASE("uniform and normal have the moments of their distributions") {
  Rng rng(1, Stream::environment, 0, 0);
  const int n = 200000;
  double sum = 0, sum2 = 0, low = 1, high = 0;
  for (int i = 0; i < n; ++i) {
    const double x = rng.uniform();
    sum += x;
    sum2 += x * x;
    low = std::min(low, x);
    high = std::max(high, x);
  }
  CHECK(sum / n == doctest::Approx(0.5).epsilon(0.005));
  CHECK(sum2 / n == doctest::Approx(1.0 / 3).epsilon(0.005));
  CHECK(low >= 0);
  CHECK(high < 1);
  double m1 = 0, m2 = 0, m4 = 0;
  for (int i = 0; i < n; ++i) {
    const double x = rng.normal();
    m1 += x;
    m2 += x * x;
    m4 += x * x * x * x;
  }
  CHECK(std::abs(m1 / n) < 0.01);
  CHECK(m2 / n == doctest::Approx(1.0).epsilon(0.02));
  CHECK(m4 / n == doctest::Approx(3.0).epsilon(0.05));
}

TEST_CASE("integers have no modulo bias") {
  // with a bound of 3 * 2^30, taking the remainder would give the low third twice as often
  Rng rng(2, Stream::environment, 0, 0);
  const std::uint32_t bound = 3u << 30;
  int low = 0;
  const int n = 60000;
  for (int i = 0; i < n; ++i) {
    const std::uint32_t x = rng.integer(bound);
    REQUIRE(x < bound);
    low += x < (1u << 30);
  }
  CHECK(static_cast<double>(low) / n == doctest::Approx(1.0 / 3).epsilon(0.03));
  CHECK(rng.integer(1) == 0);
}

TEST_CASE("permutations hold every number once and are uniform") {
  Rng rng(3, Stream::shuffle, 0, 0);
  std::map<std::vector<std::int32_t>, int> seen;
  const int n = 24000;
  for (int i = 0; i < n; ++i) {
    std::vector<std::int32_t> order(4);
    rng.permutation(order);
    ++seen[order];
    std::sort(order.begin(), order.end());
    REQUIRE(order == std::vector<std::int32_t>{0, 1, 2, 3});
  }
  CHECK(seen.size() == 24);
  for (const auto& [order, count] : seen) CHECK(std::abs(count - n / 24) < 200);
}

TEST_CASE("a stream continues from its saved position") {
  for (int drawn = 0; drawn < 9; ++drawn) {
    Rng rng(4, Stream::action, 5, 6);
    for (int i = 0; i < drawn; ++i) rng.bits();
    rng.normal();
    Rng copy;
    copy.set_state(rng.state());
    for (int i = 0; i < 20; ++i) {
      CHECK(copy.normal() == rng.normal());
      CHECK(copy.bits() == rng.bits());
    }
  }
  Rng rng;
  auto state = rng.state();
  state[6] = 5;
  CHECK_THROWS_AS(rng.set_state(state), CheckpointError);
}

TEST_CASE("starting an episode forgets all of the one before") {
  Rng a(7, Stream::environment, 1, 0), b(7, Stream::environment, 1, 3);
  a.normal();
  a.bits();
  a.start_episode(3);
  for (int i = 0; i < 10; ++i) CHECK(a.normal() == b.normal());
}
