// Pools of MuJoCo tasks against plain MuJoCo, and against themselves with other shards and threads.

#include <doctest/doctest.h>

#include <mutex>
#include <set>
#include <thread>

#include "canter/base/error.hpp"
#include "env/models.hpp"
#include "env/mujoco/log.hpp"

using namespace canter;
using namespace canter::testing;
using namespace canter::mujoco;

namespace {

constexpr int kNumEnvs = 7;
constexpr int kNumSteps = 60;

Record run_runner(const Model& model, PoolOptions options) {
  options.num_envs = kNumEnvs;
  options.seed = 3;
  auto pool = make_pool<Runner>(model, options);
  return run_from_start(*pool, kNumSteps);
}

}  // namespace

TEST_CASE("a pool gives what plain MuJoCo with one mjData per environment gives") {
  const Model model = parse_model(runner_xml());
  const LogGuard guard;
  auto pool = make_pool<Runner>(model, {.num_envs = kNumEnvs, .seed = 3, .num_shards = 2});
  StepBuffers step(kNumEnvs, pool->spec());
  pool->reset(step.view());

  // the oracle: a loop over mjData, a task and an Rng each, written without the pool
  struct Env {
    std::unique_ptr<mjData, void (*)(mjData*)> data{nullptr, mj_deleteData};
    Runner task;
    Rng rng;
    int steps = 0, episode = 0;
    double episode_return = 0;
  };
  std::vector<Env> envs(kNumEnvs);
  auto start = [&](Env& env) {
    env.rng.start_episode(static_cast<std::uint32_t>(env.episode++));
    env.steps = 0;
    env.episode_return = 0;
    mj_resetData(model.get(), env.data.get());
    Simulation sim(*model, *env.data, env.rng);
    env.task.reset(sim);
    mj_forward(model.get(), env.data.get());
    env.task.after_reset(sim);
  };
  auto observation = [&](Env& env) {
    std::vector<float> out(12);
    env.task.observe(Simulation(*model, *env.data, env.rng), out);
    return out;
  };
  for (int i = 0; i < kNumEnvs; ++i) {
    Env& env = envs[static_cast<std::size_t>(i)];
    env.data.reset(mj_makeData(model.get()));
    env.rng = Rng(3, Stream::environment, static_cast<std::uint32_t>(i), 0);
    start(env);
    CHECK(row(step.observations, i, 12) == observation(env));
  }

  int num_terminated = 0, num_truncated = 0;
  for (int t = 0; t < kNumSteps; ++t) {
    const std::vector<float> actions = random_actions(*pool, t);
    pool->step(actions, step.view());
    for (int i = 0; i < kNumEnvs; ++i) {
      const auto k = static_cast<std::size_t>(i);
      Env& env = envs[k];
      for (std::size_t j = 0; j < 2; ++j)
        env.data->ctrl[j] = static_cast<double>(actions[2 * k + j]);
      for (int s = 0; s < 4; ++s) mj_step(model.get(), env.data.get());
      mj_rnePostConstraint(model.get(), env.data.get());
      const Simulation sim(*model, *env.data, env.rng);
      const Outcome outcome = env.task.after_step(sim, std::span(actions).subspan(2 * k, 2));
      std::vector<float> metrics(2);
      env.task.measure(sim, metrics);
      env.episode_return += static_cast<double>(outcome.reward);
      const bool truncated = ++env.steps == 40;

      CHECK(step.rewards[k] == outcome.reward);
      CHECK(step.terminated[k] == outcome.terminated);
      CHECK(step.truncated[k] == truncated);
      CHECK(row(step.metrics, i, 2) == metrics);
      num_terminated += outcome.terminated;
      num_truncated += truncated;
      if (outcome.terminated || truncated) {
        CHECK(row(step.final_observations, i, 12) == observation(env));
        CHECK(step.episode_returns[k] == static_cast<float>(env.episode_return));
        CHECK(step.episode_lengths[k] == env.steps);
        start(env);
      }
      CHECK(row(step.observations, i, 12) == observation(env));
    }
  }
  // the run has seen both kinds of endings
  CHECK(num_terminated > 3);
  CHECK(num_truncated > 3);
  CHECK(pool->statistics().terminated == num_terminated);
  CHECK(pool->statistics().truncated == num_truncated);
}

TEST_CASE("the bits do not depend on shards, nor on sharing mjData") {
  for (const char* integrator : {"RK4", "Euler", "implicitfast"}) {
    CAPTURE(integrator);
    const Model model = parse_model(runner_xml("integrator=\"" + std::string(integrator) + '"'));
    const Record one = run_runner(model, {.num_threads = 1, .num_shards = 1});
    CHECK(run_runner(model, {.num_threads = 1, .num_shards = 2}) == one);
    CHECK(run_runner(model, {.num_threads = 1, .num_shards = 5}) == one);
    CHECK(run_runner(model, {.num_threads = 1, .num_shards = 5, .persistent = true}) == one);
  }
}

namespace {

// planted: looks at a derived position before the step, which may be another environment's
class Stale : public Runner {
 public:
  void before_step(Simulation& sim, std::span<const float> action) {
    sim.ctrl()[0] = static_cast<double>(action[0]) + sim.xpos(kBeam)[2];
    sim.ctrl()[1] = static_cast<double>(action[1]);
  }
};

// the same, done right
class Fresh : public Runner {
 public:
  void before_step(Simulation& sim, std::span<const float> action) {
    sim.kinematics();
    sim.ctrl()[0] = static_cast<double>(action[0]) + sim.xpos(kBeam)[2];
    sim.ctrl()[1] = static_cast<double>(action[1]);
  }
};

template <class T>
bool same_bits_with_shards(const Model& model) {
  auto bits = [&](PoolOptions options) {
    options.num_envs = kNumEnvs;
    auto pool = make_pool<T>(model, options);
    return run_from_start(*pool, kNumSteps);
  };
  const Record one = bits({.num_threads = 1, .num_shards = 1});
  return bits({.num_threads = 1, .num_shards = 5}) == one &&
         bits({.num_threads = 1, .num_shards = 1, .persistent = true}) == one;
}

}  // namespace

TEST_CASE("a task that reads a stale field is caught by that comparison") {
  const Model model = parse_model(runner_xml());
  CHECK_FALSE(same_bits_with_shards<Stale>(model));
  CHECK(same_bits_with_shards<Fresh>(model));
}

namespace {

std::mutex workers_mutex;
std::set<std::thread::id> workers;

// notes which threads work; waits until as many as wanted were here, so that none is starved
class Watched : public Runner {
 public:
  static inline std::size_t wanted = 0;
  Outcome after_step(const Simulation& sim, std::span<const float> action) {
    const std::thread::id me = std::this_thread::get_id();
    for (bool known = false;; std::this_thread::yield()) {
      const std::lock_guard lock(workers_mutex);
      if (!known) workers.insert(me);
      known = true;
      if (workers.size() >= wanted) break;
    }
    return Runner::after_step(sim, action);
  }
};

}  // namespace

TEST_CASE("the bits do not depend on the number of threads") {
  const Model model = parse_model(runner_xml());
  Record one;
  for (const int num_threads : {1, 2, 5}) {
    workers.clear();
    Watched::wanted = static_cast<std::size_t>(num_threads);
    auto pool = make_pool<Watched>(
        model, {.num_envs = 23, .seed = 9, .num_threads = num_threads, .num_shards = 10});
    const Record record = run_from_start(*pool, kNumSteps);
    CHECK(workers.size() == static_cast<std::size_t>(num_threads));
    CHECK(pool->statistics().num_threads == num_threads);
    if (num_threads == 1) one = record;
    CHECK(record == one);
  }
}

TEST_CASE("two pools in two threads do not disturb each other") {
  const Model model = parse_model(runner_xml());
  const Record alone = run_runner(model, {.num_threads = 1});
  std::vector<Record> records(2);
  std::vector<std::thread> threads;
  for (Record& record : records)
    threads.emplace_back([&] {
      for (int k = 0; k < 3; ++k) record = run_runner(model, {.num_threads = 2});
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(records[0] == alone);
  CHECK(records[1] == alone);
}

TEST_CASE("state and reset_to speak double precision") {
  const Model model = parse_model(runner_xml());
  const LogGuard guard;
  auto pool = make_pool<Runner>(model, {.num_envs = 3, .num_shards = 2});
  StepBuffers step(3, pool->spec());
  pool->reset(step.view());
  run(*pool, step, 0, 5);

  const std::vector<double> qpos = {0.1, 0.02, -0.03, 0.3, 1.0 / 3}, qvel = {1, -2, 0.5, 0, 1e-3};
  std::vector<float> observation(12);
  pool->reset_to(1, qpos, qvel, observation);
  CHECK(pool->state(1).qpos == qpos);
  CHECK(pool->state(1).qvel == qvel);
  CHECK(pool->state(1).time == 0);
  CHECK(pool->state(0).time > 0);

  // oracle: reset, set, forward, then the same physics
  std::unique_ptr<mjData, void (*)(mjData*)> data(mj_makeData(model.get()), mj_deleteData);
  Rng rng;
  Runner task;
  Simulation sim(*model, *data, rng);
  std::ranges::copy(qpos, sim.qpos().begin());
  std::ranges::copy(qvel, sim.qvel().begin());
  mj_forward(model.get(), data.get());
  task.after_reset(sim);
  std::vector<float> expected(12);
  task.observe(sim, expected);
  CHECK(observation == expected);
  CHECK(row(std::vector<float>(pool->observations().begin(), pool->observations().end()), 1, 12) ==
        expected);

  const std::vector<float> actions = random_actions(*pool, 0);
  for (std::size_t j = 0; j < 2; ++j) data->ctrl[j] = static_cast<double>(actions[2 + j]);
  for (int s = 0; s < 4; ++s) mj_step(model.get(), data.get());
  pool->step(actions, step.view());
  CHECK(pool->state(1).qpos == std::vector<double>(data->qpos, data->qpos + 5));
  CHECK(pool->state(1).qvel == std::vector<double>(data->qvel, data->qvel + 5));
  CHECK(pool->state(1).integration_state.size() ==
        static_cast<std::size_t>(mj_stateSize(model.get(), mjSTATE_INTEGRATION)));

  CHECK_THROWS_AS(pool->reset_to(3, qpos, qvel, observation), InvalidArgument);
  CHECK_THROWS_AS(pool->reset_to(0, qvel, std::vector<double>{1}, observation), InvalidArgument);
  CHECK_THROWS_AS(pool->reset_to(0, {}, qvel, observation), InvalidArgument);
  CHECK_THROWS_AS(pool->reset_to(0, std::vector<double>(5, NAN), qvel, observation),
                  InvalidArgument);
}

namespace {

struct WrongSize : Runner {
  Spec spec(const mjModel& m) const {
    Spec spec = Runner::spec(m);
    spec.action = Box{.size = 3};
    return spec;
  }
};

// constructed from the model; the pool's own copy outlives the handle
class FromModel : public Runner {
 public:
  explicit FromModel(const mjModel& model) : model_(&model) {}
  void reset(Simulation& sim) {
    CHECK(model_->nq == 5);
    Runner::reset(sim);
  }

 private:
  const mjModel* model_;
};

}  // namespace

TEST_CASE("a task's spec has to fit the model") {
  const Model model = parse_model(runner_xml());
  CHECK_THROWS_WITH_AS(make_pool<WrongSize>(model),
                       doctest::Contains("must be the model's number of controls, 2"),
                       InvalidArgument);
}

TEST_CASE("tasks may be built from the model, which the pool keeps alive") {
  auto pool = [] { return make_pool<FromModel>(parse_model(runner_xml()), {.num_envs = 2}); }();
  StepBuffers step(2, pool->spec());
  pool->reset(step.view());
  run(*pool, step, 0, 50);
  CHECK(pool->spec().step_seconds == doctest::Approx(0.02));
  CHECK(pool->name() == "(anonymous namespace)::FromModel");
}
