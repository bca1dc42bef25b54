// The rollout's own steps: carrying the last observation over, and values of final observations.

#include "canter/ppo/rollout.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "canter/base/error.hpp"
#include "ppo/linear_policy.hpp"

namespace {

canter::Spec small_spec() {
  return {.observation_size = 3, .action = canter::Box{.size = 2}, .max_episode_steps = 4};
}

}  // namespace

TEST_CASE("sizes and rows") {
  canter::Rollout rollout(4, 5, small_spec());
  CHECK(rollout.num_samples() == 20);
  CHECK(rollout.observations.size() == 5 * 5 * 3);
  CHECK(rollout.actions.size() == 4 * 5 * 2);
  CHECK(rollout.values.size() == 5 * 5);
  CHECK(rollout.row(rollout.actions, 3, 2).data() == rollout.actions.data() + 30);
  CHECK(rollout.row(rollout.actions, 3, 2).size() == 10);
  CHECK_THROWS_AS(canter::Rollout(0, 5, small_spec()), canter::InvalidArgument);
  CHECK_THROWS_AS(canter::Rollout(4, 0, small_spec()), canter::InvalidArgument);
  CHECK_THROWS_AS(canter::Rollout(1 << 16, 1 << 16, small_spec()), canter::InvalidArgument);
}

TEST_CASE("start makes the last observations the first") {
  canter::Rollout rollout(2, 2, small_spec());
  for (std::size_t i = 0; i < rollout.observations.size(); ++i)
    rollout.observations[i] = static_cast<float>(i);
  rollout.start();
  for (std::size_t i = 0; i < 6; ++i) CHECK(rollout.observations[i] == static_cast<float>(12 + i));
}

TEST_CASE(
    "final observations are valued where the time limit ended the episode, and nowhere else") {
  for (const bool keep : {false, true}) {
    canter::Rollout rollout(3, 4, small_spec(), keep);
    LinearPolicy policy(small_spec());
    for (float& w : policy.parameters()) w = 1;  // V(x) = sum of x + 1
    rollout.final_values.assign(12, -7.0f);
    const auto step = [&](int t, int truncated_env, float x, bool terminated) {
      const auto i = static_cast<std::size_t>(t * 4 + truncated_env);
      rollout.truncated[i] = 1;
      rollout.terminated[i] = terminated;
      rollout.final_observations.assign(12, -1000.0f);
      for (int k = 0; k < 3; ++k)
        rollout.final_observations[static_cast<std::size_t>(3 * truncated_env + k)] = x;
      rollout.evaluate_final_observations(t, policy);
    };
    step(0, 2, 5.0f, false);
    step(1, 3, 6.0f, true);
    step(2, 1, 7.0f, false);
    for (std::size_t i = 0; i < 12; ++i) {
      CAPTURE(i);
      CHECK(rollout.final_values[i] == (i == 2 ? 16.0f : i == 9 ? 22.0f : -7.0f));
    }

    // under changed parameters all values change, if the observations were kept
    for (float& w : policy.parameters()) w = 2;
    if (!keep) {
      CHECK_THROWS_AS(rollout.evaluate_again(policy), canter::InvalidArgument);
      continue;
    }
    rollout.observations.assign(rollout.observations.size(), 1.0f);
    rollout.evaluate_again(policy);
    CHECK(rollout.values == std::vector<float>(16, 8.0f));
    CHECK(rollout.final_values[2] == 32.0f);
    CHECK(rollout.final_values[9] == 44.0f);

    // the next rollout forgets them
    rollout.truncated.assign(12, 0);
    for (int t = 0; t < 3; ++t) rollout.evaluate_final_observations(t, policy);
    rollout.final_values.assign(12, -7.0f);
    rollout.evaluate_again(policy);
    CHECK(rollout.final_values == std::vector<float>(12, -7.0f));
  }
}

TEST_CASE("a rollout that no machine can hold is refused before memory is touched") {
  const canter::Spec spec{.observation_size = std::numeric_limits<int>::max()};
  CHECK_THROWS_WITH_AS(canter::Rollout(1 << 15, 1 << 15, spec, false),
                       doctest::Contains("GiB of memory"), canter::InvalidArgument);
}
