#include "canter/ppo/running_moments.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "canter/base/error.hpp"

using namespace canter;

namespace {

// rows float[n, 3] far from zero with very different spreads
std::vector<float> rows(std::size_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out;
  for (std::size_t i = 0; i < n; ++i) {
    out.push_back(1e4f + normal(generator));
    out.push_back(1e-3f * normal(generator));
    out.push_back(7.0f);
  }
  return out;
}

// mean, then the mean of squared deviations
struct TwoPass {
  explicit TwoPass(const std::vector<float>& data, std::size_t i) {
    const double n = static_cast<double>(data.size() / 3);
    for (std::size_t r = i; r < data.size(); r += 3) mean += static_cast<double>(data[r]) / n;
    for (std::size_t r = i; r < data.size(); r += 3)
      variance += std::pow(static_cast<double>(data[r]) - mean, 2) / n;
  }
  double mean = 0, variance = 0;
};

void check_equal(const RunningMoments& moments, const std::vector<float>& data) {
  CHECK(moments.count() == static_cast<double>(data.size() / 3));
  for (int i = 0; i < 3; ++i) {
    const TwoPass expected(data, static_cast<std::size_t>(i));
    CHECK(moments.mean()[static_cast<std::size_t>(i)] ==
          doctest::Approx(expected.mean).epsilon(1e-12));
    CHECK(std::abs(moments.variance(i) - expected.variance) <= 1e-9 * (expected.variance + 1e-9));
  }
}

}  // namespace

TEST_CASE("moments equal the two-pass formulas, added at once or in pieces") {
  const auto data = rows(1000, 1);
  RunningMoments whole(3), pieces(3);
  whole.add(data);
  check_equal(whole, data);
  for (std::size_t first = 0; first < data.size(); first += 3 * 7)
    pieces.add(std::span(data).subspan(first, std::min<std::size_t>(21, data.size() - first)));
  CHECK(std::ranges::equal(pieces.mean(), whole.mean()));
  CHECK(pieces.variance(1) == whole.variance(1));
}

TEST_CASE("merged moments are those of all data") {
  const auto a = rows(300, 1), b = rows(17, 2);
  RunningMoments first(3), second(3);
  first.add(a);
  second.add(b);
  first.merge(second);
  std::vector<float> all = a;
  all.insert(all.end(), b.begin(), b.end());
  check_equal(first, all);
  // nothing is merged twice by merging nothing
  first.merge(RunningMoments(3));
  check_equal(first, all);
  RunningMoments empty(3);
  empty.merge(first);
  check_equal(empty, all);
  // ranks with 1, 2, 3 and 10: mean 4, population variance 12.5, count 4
  RunningMoments left(1), right(1);
  left.add(std::vector<float>{1, 2, 3});
  right.add(std::vector<float>{10});
  left.merge(right);
  CHECK(left.mean()[0] == doctest::Approx(4));
  CHECK(left.variance(0) == doctest::Approx(12.5));
  CHECK(left.count() == 4);
}

TEST_CASE("few rows, constant entries and rows that are not finite") {
  RunningMoments moments(2);
  std::vector<float> mean(2), inverse_std(2);
  moments.normaliser(mean, inverse_std);
  CHECK(mean == std::vector<float>{0, 0});
  CHECK(inverse_std == std::vector<float>{1, 1});
  moments.add(std::vector<float>{3, 4});
  CHECK(moments.variance(0) == 1.0);
  moments.normaliser(mean, inverse_std);
  CHECK(mean == std::vector<float>{3, 4});
  CHECK(inverse_std[0] == doctest::Approx(1));
  const float inf = std::numeric_limits<float>::infinity();
  moments.add(std::vector<float>{inf, 0, 3, 8, 1, std::nanf("")});
  CHECK(moments.count() == 2);
  CHECK(moments.mean()[1] == 6);
  moments.normaliser(mean, inverse_std);
  CHECK(inverse_std[0] == doctest::Approx(1e4));  // a constant entry: 1 / sqrt(epsilon)
  CHECK(inverse_std[1] == doctest::Approx(0.5));
}

TEST_CASE("moments are saved, packed and refused when damaged") {
  RunningMoments moments(3);
  moments.add(rows(50, 3));
  StateDict state;
  moments.save(state, "m");
  RunningMoments loaded(3), unpacked(3), other(2);
  loaded.load(state, "m");
  CHECK(std::ranges::equal(loaded.mean(), moments.mean()));
  CHECK(loaded.variance(0) == moments.variance(0));
  CHECK(loaded.count() == 50);
  std::vector<double> packed(7);
  moments.pack(packed);
  unpacked.unpack(packed);
  CHECK(unpacked.variance(1) == moments.variance(1));
  CHECK_THROWS_AS(other.load(state, "m"), CheckpointError);

  const double bad[3] = {1, -1, 1}, count = 5;
  StateDict damaged;
  damaged.append("m/count", std::span(&count, 1), {1});
  damaged.append("m/mean", moments.mean(), {3});
  damaged.append("m/m2", std::span<const double>(bad), {3});
  CHECK_THROWS_AS(loaded.load(damaged, "m"), CheckpointError);
  CHECK(loaded.count() == 50);
}
