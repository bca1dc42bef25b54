#include "canter/base/spec.hpp"

#include <doctest/doctest.h>

#include "canter/base/error.hpp"

using namespace canter;

TEST_CASE("a spec that contradicts itself is refused") {
  const Spec good{.observation_size = 4, .action = Box{.size = 1, .low = -3, .high = 3}};
  check(good);
  CHECK(good.action_size() == 1);
  CHECK(Spec{.action = Discrete{5}}.action_size() == 1);
  const auto broken = [&](auto change) {
    Spec spec = good;
    change(spec);
    CHECK_THROWS_AS(check(spec), InvalidArgument);
  };
  broken([](Spec& s) { s.observation_size = -1; });
  broken([](Spec& s) { s.frame_skip = 0; });
  broken([](Spec& s) { s.max_episode_steps = -1; });
  broken([](Spec& s) { s.action = Discrete{0}; });
  broken([](Spec& s) { s.action = Box{.size = 2, .low = 0, .high = 0}; });
  broken([](Spec& s) { s.action = Box{.size = 2, .lows = {1}}; });
  broken([](Spec& s) { s.groups = {{"critic", 3, 2}}; });
  broken([](Spec& s) { s.observation_lows = {0}; });
}
