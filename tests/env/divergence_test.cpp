// Physics that blow up are an event of that very step, never a silent reset in mid-episode.

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "canter/base/error.hpp"
#include "env/models.hpp"
#include "env/mujoco/log.hpp"

using namespace canter;
using namespace canter::testing;
using namespace canter::mujoco;

namespace {

// the first substep in which plain MuJoCo warns of bad numbers, or 0
int first_bad_substep(const Model& model, float action) {
  const LogGuard guard;
  std::unique_ptr<mjData, void (*)(mjData*)> data(mj_makeData(model.get()), mj_deleteData);
  data->ctrl[0] = static_cast<double>(action);
  for (int k = 1; k <= 5; ++k) {
    mj_step(model.get(), data.get());
    for (const int kind : {mjWARN_BADQPOS, mjWARN_BADQVEL, mjWARN_BADQACC})
      if (data->warning[kind].number) return k;
  }
  return 0;
}

void check_event(const Model& model, const char* warning,
                 const std::function<void(EnvPool&, StepBuffers&)>& bad_step) {
  for (const int num_shards : {1, 2})
    for (const bool persistent : {false, true}) {
      const PoolOptions options{.num_envs = 4,
                                .seed = 1,
                                .num_threads = 1,
                                .num_shards = num_shards,
                                .persistent = persistent};
      auto pool = make_pool<Ramp>(model, options), healthy = make_pool<Ramp>(model, options);
      StepBuffers step(4, pool->spec()), good(4, pool->spec());
      pool->reset(step.view());
      healthy->reset(good.view());
      bad_step(*pool, step);
      healthy->step(std::vector<float>(4, 1e-9f), good.view());
      CHECK(step.diverged == std::vector<std::uint8_t>{0, 0, 1, 0});
      CHECK(step.terminated == std::vector<std::uint8_t>{0, 0, 1, 0});
      CHECK(step.rewards[2] == 0);
      CHECK(step.episode_lengths[2] == 1);
      for (const float x : row(step.observations, 2, 2)) CHECK(std::isfinite(x));
      for (const float x : row(step.final_observations, 2, 2)) CHECK(std::isfinite(x));
      CHECK(others(step, 2, 2) == others(good, 2, 2));
      const PoolStatistics statistics = pool->statistics();
      CHECK(statistics.diverged == 1);
      if (*warning) {
        REQUIRE(statistics.warnings.size() == 1);
        CHECK(statistics.warnings[0].first.find(warning) != std::string::npos);
        CHECK(statistics.warnings[0].second == 1);
      } else {
        CHECK(statistics.warnings.empty());
      }
      // and they stay the same for the rest of the episode
      for (int t = 0; t < 3; ++t) {
        pool->step(std::vector<float>(4, 1e-9f), step.view());
        healthy->step(std::vector<float>(4, 1e-9f), good.view());
        CHECK(others(step, 2, 2) == others(good, 2, 2));
        CHECK(step.diverged[2] == 0);
      }
      CHECK(pool->statistics().diverged == 1);
    }
}

}  // namespace

TEST_CASE("physics that blow up in any substep are an event of that very step") {
  const Model model = parse_model(kRampXml);
  for (const auto& [when, action] : {std::pair{2, 12.0f}, {5, 2.7f}}) {
    const int substep = when;
    CAPTURE(substep);
    REQUIRE(first_bad_substep(model, action) == substep);
    check_event(model, "QACC", [action = action](EnvPool& pool, StepBuffers& step) {
      pool.step(std::vector<float>{1e-9f, 1e-9f, action, 1e-9f}, step.view());
    });
  }
}

TEST_CASE("a state out of range after the last substep is an event of that step, not of the next") {
  const Model model = parse_model(kRampXml);
  // 4 substeps leave the position within MuJoCo's 1e10, the fifth does not
  check_event(model, "QPOS", [](EnvPool& pool, StepBuffers& step) {
    std::vector<float> observation(2);
    pool.reset_to(2, std::vector<double>{1e10 - 9e6}, std::vector<double>{2e9}, observation);
    pool.step(std::vector<float>(4, 1e-9f), step.view());
    CHECK(row(step.final_observations, 2, 2) == observation);
  });
}

TEST_CASE("an action that is not finite never reaches the physics") {
  const Model model = parse_model(kRampXml);
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY})
    check_event(model, "", [bad](EnvPool& pool, StepBuffers& step) {
      const auto start =
          row(std::vector<float>(pool.observations().begin(), pool.observations().end()), 2, 2);
      pool.step(std::vector<float>{1e-9f, 1e-9f, bad, 1e-9f}, step.view());
      CHECK(row(step.final_observations, 2, 2) == start);
    });
}

TEST_CASE("unstable physics with plain MuJoCo's answer in view: C10") {
  auto pool = make_pool<Ramp>(parse_model(kRailXml), {.num_envs = 4});
  StepBuffers step(4, pool->spec());
  pool->reset(step.view());
  pool->step(std::vector<float>{0, 0, 1, 0}, step.view());
  CHECK(step.diverged == std::vector<std::uint8_t>{0, 0, 1, 0});
  CHECK(pool->statistics().warnings.at(0).second == 1);
}

TEST_CASE("warnings that do not end an episode are counted across resets") {
  const Model model = parse_model(boxes_xml("48K"));
  auto pool = make_pool<Boxes>(model, {.num_envs = 3, .num_shards = 2});
  StepBuffers step(3, pool->spec());
  pool->reset(step.view());
  for (int t = 0; t < 8; ++t) pool->step(actions_with(3, 1, t == 0 ? 7.0f : 0.0f), step.view());
  const PoolStatistics statistics = pool->statistics();
  REQUIRE(statistics.warnings.size() == 1);
  CHECK(statistics.warnings[0].first.find("constraints") != std::string::npos);
  CHECK(statistics.warnings[0].second >= 5);
  CHECK(statistics.diverged == 0);
  CHECK(statistics.episodes == 3);
}
