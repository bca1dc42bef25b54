// The built-in tasks: sizes and bounds of their specs, the ranges of their first states, and the
// same bits however the pool is cut into shards, threads and mjData. That the numbers are
// Gymnasium's is tested against Gymnasium itself, in tests/python/test_parity.py.

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numbers>

#include "canter/base/error.hpp"
#include "canter/env/registry.hpp"

namespace {

using canter::EnvPool;
using canter::PoolOptions;
using canter::Spec;

// the model files of MuJoCo tasks are not ours: without them their tests are skipped, loudly
bool has_models(std::string_view name) {
  const std::string file = canter::model_file(name);
  const char* folder = std::getenv("CANTER_ASSET_PATH");
  if (file.empty() || (folder && std::filesystem::exists(std::filesystem::path(folder) / file)))
    return true;
  MESSAGE("SKIPPED for ", std::string(name), ": no ", file,
          " in CANTER_ASSET_PATH, the folder of gymnasium's MuJoCo assets");
  return false;
}

struct Expected {
  const char* name;
  int observation_size, action_size, max_episode_steps, num_metrics;
  float action_high;
  double step_seconds;
};
// from the definitions in Gymnasium 1.4 and its model files
constexpr std::array<Expected, 7> kTasks{{
    {"CartPole-v1", 4, 1, 500, 0, 0, 0.02},
    {"Pendulum-v1", 3, 1, 200, 0, 2, 0.05},
    {"InvertedPendulum-v5", 4, 1, 1000, 1, 3, 0.04},
    {"HalfCheetah-v5", 17, 6, 1000, 4, 1, 0.05},
    {"Hopper-v5", 11, 3, 1000, 6, 1, 0.008},
    {"Walker2d-v5", 17, 6, 1000, 6, 1, 0.008},
    {"Ant-v5", 105, 8, 1000, 9, 1, 0.05},
}};

// appends the bytes of what one step or reset wrote; rows that are written only when an episode
// ended keep their earlier values, which are the same in every run
void append_bytes(std::vector<std::byte>& log, const canter::StepBuffers& b) {
  const auto add = [&](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    log.insert(log.end(), bytes.begin(), bytes.end());
  };
  add(b.observations), add(b.rewards), add(b.terminated), add(b.truncated);
  add(b.final_observations), add(b.diverged);
  add(b.episode_returns), add(b.episode_lengths), add(b.metrics);
}

void draw_actions(const Spec& spec, canter::Rng& rng, std::vector<float>& actions) {
  if (const auto* discrete = std::get_if<canter::Discrete>(&spec.action)) {
    for (float& a : actions)
      a = static_cast<float>(rng.integer(static_cast<std::uint32_t>(discrete->count)));
    return;
  }
  const auto& box = std::get<canter::Box>(spec.action);
  for (float& a : actions) a = static_cast<float>(1.2 * rng.uniform(box.low_of(0), box.high_of(0)));
}

// everything that 250 steps write: random actions, time limits, falls, masked resets
std::vector<std::byte> run(const char* name, PoolOptions options) {
  constexpr int num_envs = 7;
  options.num_envs = num_envs;
  options.seed = 11;
  options.max_episode_steps = 60;
  const auto pool = canter::make_pool(name, options);
  canter::StepBuffers buffers(num_envs, pool->spec());
  std::vector<float> actions(num_envs * static_cast<std::size_t>(pool->spec().action_size()));
  canter::Rng rng(5, canter::Stream::action, 0, 0);
  std::vector<std::byte> log;

  pool->reset(buffers.view());
  append_bytes(log, buffers);
  for (int t = 0; t < 250; ++t) {
    draw_actions(pool->spec(), rng, actions);
    pool->step(actions, buffers.view());
    append_bytes(log, buffers);
    if (t % 83 == 40) {
      std::array<std::uint8_t, num_envs> mask{};
      mask[rng.integer(num_envs)] = mask[rng.integer(num_envs)] = 1;
      pool->reset(mask, buffers.view());
      append_bytes(log, buffers);
    }
  }
  CHECK(pool->statistics().diverged == 0);
  CHECK(pool->statistics().truncated + pool->statistics().terminated >= 3 * num_envs);
  return log;
}

bool equal(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

TEST_CASE("specs are the definitions'") {
  for (const Expected& e : kTasks) {
    CAPTURE(std::string(e.name));
    if (!has_models(e.name)) continue;
    const auto pool = canter::make_pool(e.name);
    const Spec& spec = pool->spec();
    CHECK(spec.observation_size == e.observation_size);
    CHECK(spec.action_size() == e.action_size);
    CHECK(spec.max_episode_steps == e.max_episode_steps);
    CHECK(spec.metrics.size() == static_cast<std::size_t>(e.num_metrics));
    CHECK(spec.step_seconds == doctest::Approx(e.step_seconds).epsilon(1e-12));
    CHECK(pool->name() == e.name);
    CHECK(pool->refuses_save().empty());
    if (spec.is_discrete()) {
      CHECK(std::get<canter::Discrete>(spec.action).count == 2);
      continue;
    }
    const auto& box = std::get<canter::Box>(spec.action);
    for (int i = 0; i < box.size; ++i) {
      CHECK(box.high_of(i) == e.action_high);
      CHECK(box.low_of(i) == -e.action_high);
    }
  }
}

TEST_CASE("a model that a task cannot be read from is refused") {
  if (!has_models("Ant-v5")) return;
  const std::string assets = std::getenv("CANTER_ASSET_PATH");
  for (const char* name : {"Hopper-v5", "Walker2d-v5", "Ant-v5"}) {
    CAPTURE(std::string(name));
    CHECK_THROWS_AS(canter::make_pool(name, {.model_path = assets + "/inverted_pendulum.xml"}),
                    canter::ModelError);
    CHECK_THROWS_AS(canter::make_pool(name, {.model_path = "/nowhere.xml"}), canter::ModelError);
  }
}

TEST_CASE("first states fill the ranges of the definitions and no more") {
  constexpr int num_envs = 512;
  const auto extremes = [](const char* name, int column) {
    const auto pool = canter::make_pool(name, {.num_envs = num_envs, .seed = 3});
    canter::StepBuffers buffers(num_envs, pool->spec());
    pool->reset(buffers.view());
    float low = 1e9f, high = -1e9f;
    for (int i = 0; i < num_envs; ++i) {
      const float x =
          buffers
              .observations[static_cast<std::size_t>(i * pool->spec().observation_size + column)];
      low = std::min(low, x), high = std::max(high, x);
    }
    return std::array<double, 2>{low, high};
  };
  const auto uniform = [&](const char* name, int column, double centre, double scale) {
    CAPTURE(std::string(name));
    CAPTURE(column);
    const auto [low, high] = extremes(name, column);
    CHECK(low >= centre - scale - 1e-6);
    CHECK(high <= centre + scale + 1e-6);
    // 512 draws come within 3 % of each end but once in 3e6
    CHECK(low < centre - 0.94 * scale);
    CHECK(high > centre + 0.94 * scale);
  };
  for (int column = 0; column < 4; ++column) uniform("CartPole-v1", column, 0, 0.05);
  uniform("Pendulum-v1", 0, 0, 1);  // cos and sin of every angle
  uniform("Pendulum-v1", 1, 0, 1);
  uniform("Pendulum-v1", 2, 0, 1);  // speed
  if (!has_models("Hopper-v5")) return;
  for (int column = 0; column < 4; ++column) uniform("InvertedPendulum-v5", column, 0, 0.01);
  uniform("Hopper-v5", 0, 1.25, 5e-3);
  uniform("Hopper-v5", 10, 0, 5e-3);
  uniform("Walker2d-v5", 0, 1.25, 5e-3);
  uniform("Walker2d-v5", 16, 0, 5e-3);
  uniform("HalfCheetah-v5", 0, 0, 0.1);
  uniform("Ant-v5", 0, 0.75, 0.1);
  // normal, scale 0.1: the largest of 512 lies between 2 and 5 standard deviations
  for (const char* name : {"HalfCheetah-v5", "Ant-v5"}) {
    const auto [low, high] = extremes(name, 13);
    CHECK(low > -0.5);
    CHECK(low < -0.2);
    CHECK(high > 0.2);
    CHECK(high < 0.5);
  }
}

TEST_CASE("same bits for any number of shards and threads, and with one mjData each") {
  for (const Expected& e : kTasks) {
    CAPTURE(std::string(e.name));
    if (!has_models(e.name)) continue;
    const auto reference = run(e.name, {.num_threads = 1, .num_shards = 1});
    CHECK(equal(reference, run(e.name, {.num_threads = 1, .num_shards = 2})));
    CHECK(equal(reference, run(e.name, {.num_threads = 2, .num_shards = 5})));
    CHECK(equal(reference, run(e.name, {.num_threads = 5, .num_shards = 5})));
    CHECK(equal(reference, run(e.name, {.num_threads = 1, .num_shards = 1, .persistent = true})));
    CHECK(equal(reference, run(e.name, {.num_threads = 2, .num_shards = 2, .persistent = true})));
  }
}

TEST_CASE("saved and loaded in mid-episode, every task goes on with the same bits") {
  for (const Expected& e : kTasks) {
    CAPTURE(std::string(e.name));
    if (!has_models(e.name)) continue;
    constexpr int num_envs = 5;
    const PoolOptions options{.num_envs = num_envs, .seed = 4, .num_threads = 1};
    const auto first = canter::make_pool(e.name, options);
    PoolOptions other_options = options;
    other_options.num_threads = 2;
    other_options.num_shards = 3;
    const auto second = canter::make_pool(e.name, other_options);
    canter::StepBuffers a(num_envs, first->spec()), b(num_envs, second->spec());
    std::vector<float> actions(num_envs * static_cast<std::size_t>(first->spec().action_size()));
    canter::Rng rng(6, canter::Stream::action, 0, 0);

    first->reset(a.view());
    for (int t = 0; t < 17; ++t) {
      draw_actions(first->spec(), rng, actions);
      first->step(actions, a.view());
    }
    canter::StateDict state;
    first->save(state);
    second->load(state);
    // no step rows of the two buffers may differ from their earlier values by chance
    b = a;
    for (int t = 0; t < 60; ++t) {
      draw_actions(first->spec(), rng, actions);
      first->step(actions, a.view());
      second->step(actions, b.view());
      std::vector<std::byte> left, right;
      append_bytes(left, a);
      append_bytes(right, b);
      REQUIRE(equal(left, right));
    }
  }
}
