#include "canter/evaluate.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "trainer/runs.hpp"

using namespace canter;
using namespace canter::testing;

namespace {

// environment i has episodes of i + 1 steps with reward 1
class Counter {
 public:
  Spec spec() const { return {.observation_size = 1, .action = Box{.size = 1}}; }
  void reset(Rng& rng) {
    length_ = static_cast<std::int32_t>(rng.state()[4]) + 1;
    steps_ = 0;
  }
  Outcome step(std::span<const float>, Rng&) {
    return {.reward = 1, .terminated = ++steps_ >= length_};
  }
  void observe(std::span<float> out) const { out[0] = 0; }

 private:
  std::int32_t length_ = 0, steps_ = 0;
};

}  // namespace

TEST_CASE("every environment has its quota, so short episodes are not favoured") {
  auto pool = make_pool<Counter>({.num_envs = 4, .num_threads = 1});
  auto policy = make_mlp_policy(pool->spec(), {.hidden = {4}});
  const Evaluation result = evaluate(*pool, *policy, {.episodes = 10});
  CHECK(result.lengths == std::vector<std::int32_t>{1, 1, 1, 2, 2, 2, 3, 3, 4, 4});
  CHECK(result.returns == std::vector<float>{1, 1, 1, 2, 2, 2, 3, 3, 4, 4});
  CHECK(result.return_mean == doctest::Approx(2.3));
  CHECK(result.length_mean == doctest::Approx(2.3));
  CHECK(result.return_std == doctest::Approx(1.159501809));  // numpy.std(x, ddof=1)
  // quantiles from tables of Student's distribution: t(0.975, 9) = 2.262157
  const double half = 2.262157163 * 1.159501809 / std::sqrt(10.0);
  CHECK(result.return_low == doctest::Approx(2.3 - half).epsilon(1e-8));
  CHECK(result.return_high == doctest::Approx(2.3 + half).epsilon(1e-8));
}

TEST_CASE("the interval is Student's for odd and even degrees of freedom") {
  auto pool = make_pool<Counter>({.num_envs = 2, .num_threads = 1});
  auto policy = make_mlp_policy(pool->spec(), {.hidden = {4}});
  // t(0.975, n - 1) from tables
  for (const auto& [episodes, t] :
       {std::pair{2, 12.70620474}, std::pair{3, 4.302652730}, std::pair{4, 3.182446305},
        std::pair{31, 2.042272456}, std::pair{1001, 1.962339081}}) {
    const Evaluation result = evaluate(*pool, *policy, {.episodes = episodes});
    const double half = t * result.return_std / std::sqrt(episodes);
    CHECK(result.return_high - result.return_mean == doctest::Approx(half).epsilon(1e-8));
  }
  const Evaluation one = evaluate(*pool, *policy, {.episodes = 1});
  CHECK(one.return_std == 0);
  CHECK(std::isinf(one.return_high));
}

TEST_CASE("evaluation learns nothing and repeats itself") {
  Variation v{.trainer = short_iterations()};
  auto trainer = make_small_trainer("one leg", v);
  iterate(*trainer, 3);
  const std::string before = trainer->digest();
  for (const bool deterministic : {true, false}) {
    std::vector<float> returns;
    for (const int threads : {1, 2}) {
      v.num_threads = threads;
      auto pool = make_small_pool("one leg", v);
      const EvaluateOptions options{.episodes = 13, .deterministic = deterministic, .seed = 2};
      const Evaluation result = evaluate(*pool, trainer->policy(), options);
      CHECK(evaluate(*pool, trainer->policy(), options).returns == result.returns);
      if (threads == 1) returns = result.returns;
      CHECK(result.returns == returns);
    }
  }
  CHECK(trainer->digest() == before);
}

TEST_CASE("what cannot be evaluated is refused") {
  Variation v;
  auto pool = make_small_pool("one leg", v);
  auto cart = make_small_pool("CartPole-v1", v);
  auto policy = make_mlp_policy(pool->spec(), v.policy);
  CHECK_THROWS_WITH_AS(evaluate(*pool, *policy, {.episodes = 0}),
                       doctest::Contains("episodes must be >= 1, got 0"), InvalidArgument);
  CHECK_THROWS_AS(evaluate(*cart, *policy), InvalidArgument);
  Spec spec = cart->spec();
  spec.action = Discrete{.count = 3};
  CHECK_THROWS_WITH_AS(evaluate(*cart, *make_mlp_policy(spec, v.policy)),
                       doctest::Contains("among 3 actions, the pool has 2"), InvalidArgument);
}
