// What goes wrong inside of a simulation: fatal MuJoCo errors, exceptions of hooks, physics that
// blow up. Each has to arrive as an EnvError or an event of the right environment, in silence,
// while all others go on bit for bit as if nothing had happened.

#include <doctest/doctest.h>

#include <stdexcept>

#include "canter/base/error.hpp"
#include "env/models.hpp"

using namespace canter;
using namespace canter::testing;
using namespace canter::mujoco;

namespace {

// where a task fails
enum class Place { nowhere, reset, after_reset, before_step, after_step, measure, observe };

// fails at the place when its action is 7 (or, in resets, when the switch is on)
class Thrower {
 public:
  static inline Place place = Place::nowhere;
  static inline bool raw_error = false;  // MuJoCo's longjmp instead of an exception
  static inline bool in_reset = false;

  Spec spec(const mjModel&) const {
    return {.observation_size = 2, .action = Box{.size = 1}, .frame_skip = 2, .metrics = {"x"}};
  }
  void reset(Simulation& sim) {
    bad_ = false;
    sim.qpos()[0] = sim.rng().uniform();
    fail(Place::reset, in_reset);
  }
  void after_reset(const Simulation&) { fail(Place::after_reset, in_reset); }
  void before_step(Simulation& sim, std::span<const float> action) {
    bad_ = action[0] == 7;
    sim.ctrl()[0] = 1e-12 * static_cast<double>(action[0]);
    fail(Place::before_step, bad_);
  }
  Outcome after_step(const Simulation&, std::span<const float>) {
    fail(Place::after_step, bad_);
    return {.reward = 1};
  }
  void measure(const Simulation& sim, std::span<float> out) const {
    out[0] = static_cast<float>(sim.qpos()[0]);
    fail(Place::measure, bad_);
  }
  void observe(const Simulation& sim, std::span<float> out) const {
    sim.copy_to(out, sim.qpos(), sim.qvel());
    fail(Place::observe, bad_);
  }

 private:
  static void fail(Place here, bool now) {
    if (here != place || !now) return;
    if (raw_error) mju_error("planted error");
    throw std::runtime_error("planted exception");
  }
  bool bad_ = false;
};

}  // namespace

TEST_CASE("a fatal MuJoCo error is an EnvError of its environment") {
  const Model model = parse_model(boxes_xml("16K"));
  for (const int num_shards : {1, 2})
    for (const bool persistent : {false, true}) {
      auto make = [&] {
        return make_pool<Boxes>(
            model,
            {.num_envs = 4, .num_threads = 2, .num_shards = num_shards, .persistent = persistent});
      };
      auto pool = make(), healthy = make();
      StepBuffers step(4, pool->spec()), good(4, pool->spec());
      pool->reset(step.view());
      healthy->reset(good.view());
      CHECK(step.observations == good.observations);
      pool->step(actions_with(4, 2, 0), step.view());
      healthy->step(actions_with(4, 2, 0), good.view());
      const auto last = row(step.observations, 2, 3);
      CHECK_THROWS_WITH_AS(pool->step(actions_with(4, 2, 7), step.view()),
                           doctest::Contains("environment 2: MuJoCo: mj_stackAlloc"), EnvError);
      healthy->step(actions_with(4, 2, 0), good.view());
      CHECK(others(step, 2, 3) == others(good, 2, 3));
      CHECK(row(step.observations, 2, 3) == last);
      CHECK_THROWS_AS(pool->step(actions_with(4, 2, 0), step.view()), Error);
      StateDict state;
      CHECK_THROWS_AS(pool->save(state), Error);

      // usable after reset: the same bits as a pool that never failed
      pool->reset(9, step.view());
      healthy->reset(9, good.view());
      CHECK(run(*pool, step, 0, 10) == run(*healthy, good, 0, 10));
    }
}

TEST_CASE("a load after a fatal error ends it: later calls see nothing of it") {
  auto pool = make_pool<Boxes>(parse_model(boxes_xml("16K")),
                               {.num_envs = 4, .num_threads = 1, .num_shards = 4});
  StepBuffers step(4, pool->spec());
  pool->reset(step.view());
  StateDict saved;
  pool->save(saved);
  std::vector<std::vector<std::byte>> memory;  // the views end with the next step
  StateDict copy;
  for (Array array : saved.arrays()) {
    memory.emplace_back(array.bytes.begin(), array.bytes.end());
    array.bytes = memory.back();
    copy.append(array);
  }
  CHECK_THROWS_AS(pool->step(actions_with(4, 2, 7), step.view()), EnvError);
  pool->load(copy);
  const EnvState start = pool->state(0);
  std::vector<float> observation(static_cast<std::size_t>(pool->spec().observation_size));
  pool->reset_to(0, start.qpos, start.qvel, observation);
  pool->step(actions_with(4, 2, 0), step.view());
}

TEST_CASE("exceptions and raw MuJoCo errors in any hook arrive with the index") {
  const Model model = parse_model(kRailXml);
  for (const bool raw : {false, true})
    for (const Place place :
         {Place::before_step, Place::after_step, Place::measure, Place::observe})
      for (const int num_shards : {1, 3}) {
        Thrower::place = place;
        Thrower::raw_error = raw;
        auto pool =
            make_pool<Thrower>(model, {.num_envs = 6, .num_threads = 2, .num_shards = num_shards});
        auto healthy = make_pool<Thrower>(model, {.num_envs = 6});
        StepBuffers step(6, pool->spec()), good(6, pool->spec());
        pool->reset(step.view());
        healthy->reset(good.view());
        try {
          pool->step(actions_with(6, 4, 7), step.view());
          FAIL("no exception");
        } catch (const EnvError& error) {
          CHECK(error.index() == 4);
          CHECK(
              std::string(error.what()).find(raw ? "MuJoCo: planted error" : "planted exception") !=
              std::string::npos);
        }
        healthy->step(actions_with(6, 4, 0), good.view());
        CHECK(others(step, 4, 2) == others(good, 4, 2));
        pool->reset(5, step.view());
        healthy->reset(5, good.view());
        CHECK(run(*pool, step, 0, 5) == run(*healthy, good, 0, 5));
      }
  for (const Place place : {Place::reset, Place::after_reset}) {
    Thrower::place = place;
    Thrower::raw_error = false;
    auto pool = make_pool<Thrower>(model, {.num_envs = 3});
    StepBuffers step(3, pool->spec());
    Thrower::in_reset = true;
    CHECK_THROWS_AS(pool->reset(step.view()), EnvError);
    CHECK_THROWS_AS(pool->step(actions_with(3, 0, 0), step.view()), Error);
    Thrower::in_reset = false;
    pool->reset(step.view());
    pool->step(actions_with(3, 0, 0), step.view());
  }
}

namespace {

// asks for forward() in a state that does not fit the memory, and lives with the answer
class Careful : public Boxes {
 public:
  static inline int num_caught = 0;
  void before_step(Simulation& sim, std::span<const float> action) {
    if (action[0] <= 5) return;
    const std::vector<double> qpos(sim.qpos().begin(), sim.qpos().end());  // owns memory
    for (std::size_t k = 0; k < 12; ++k) sim.qpos()[7 * k + 2] = 0.05;
    for (int k = 0; k < 100; ++k) {
      try {
        sim.forward();
      } catch (const Error& error) {
        num_caught += std::string(error.what()).starts_with("mj_forward: mj_stackAlloc");
      }
    }
    std::ranges::copy(qpos, sim.qpos().begin());
  }
};

}  // namespace

TEST_CASE("forward() in a hook throws a C++ exception that the hook may catch") {
  const Model model = parse_model(boxes_xml("16K"));
  auto pool = make_pool<Careful>(model, {.num_envs = 2, .num_threads = 1});
  auto healthy = make_pool<Careful>(model, {.num_envs = 2, .num_threads = 1});
  StepBuffers step(2, pool->spec()), good(2, pool->spec());
  pool->reset(step.view());
  healthy->reset(good.view());
  for (int t = 0; t < 3; ++t) {
    pool->step(std::vector<float>{7, 0}, step.view());
    healthy->step(std::vector<float>{0, 0}, good.view());
    CHECK(step.observations == good.observations);
  }
  CHECK(Careful::num_caught == 300);
}
