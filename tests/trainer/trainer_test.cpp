#include "canter/trainer.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "trainer/runs.hpp"

using namespace canter;
using namespace canter::testing;
namespace fs = std::filesystem;

TEST_CASE("one iteration is what its parts say") {
  // the same circle by hand, from the parts alone
  Variation v{.trainer = short_iterations()};
  auto pool = make_small_pool("one leg", v);
  auto policy = make_mlp_policy(pool->spec(), v.policy, 5);
  const TrainerOptions& options = v.trainer;
  Rollout rollout(options.ppo.horizon, 6, pool->spec());
  Ppo ppo(options.ppo, options.total_steps, options.seed, *policy);
  StepBuffers buffers(6, pool->spec());
  pool->reset(buffers.view());
  std::copy(buffers.observations.begin(), buffers.observations.end(), rollout.observations.begin());
  for (int t = 0; t < options.ppo.horizon; ++t) {
    policy->act({.observations = rollout.row(rollout.observations, t, 9),
                 .seed = options.seed,
                 .step = static_cast<std::uint32_t>(t)},
                {.env_actions = rollout.env_actions,
                 .actions = rollout.row(rollout.actions, t),
                 .log_probs = rollout.row(rollout.log_probs, t),
                 .values = rollout.row(rollout.values, t)});
    pool->step(rollout.env_actions, buffers.view());
    const auto copy = [](const auto& from, auto to) {
      std::copy(from.begin(), from.end(), to.begin());
    };
    copy(buffers.observations, rollout.row(rollout.observations, t + 1, 9));
    copy(buffers.rewards, rollout.row(rollout.rewards, t));
    copy(buffers.terminated, rollout.row(rollout.terminated, t));
    copy(buffers.truncated, rollout.row(rollout.truncated, t));
    for (std::size_t i = 0; i < 6; ++i)
      if (buffers.truncated[i])
        policy->value(std::span(buffers.final_observations).subspan(9 * i, 9),
                      rollout.row(rollout.final_values, t).subspan(i, 1));
  }
  policy->value(rollout.row(rollout.observations, options.ppo.horizon, 9),
                rollout.row(rollout.values, options.ppo.horizon));
  auto communicator = Communicator::single();
  const UpdateReport update = ppo.update(rollout, *policy, *communicator, 0);
  ppo.update_moments(rollout, *policy, *communicator);

  auto trainer = make_small_trainer("one leg", v);
  const Report report = trainer->iterate();
  CHECK(report.policy_loss == update.policy_loss);
  CHECK(report.env_steps == 6 * 24);
  CHECK(report.iteration == 1);
  CHECK(std::ranges::equal(trainer->policy().parameters(),
                           static_cast<const Policy&>(*policy).parameters()));
}

TEST_CASE("the same bits for 1, 2 and 5 threads") {
  for (const std::string run : {"CartPole-v1", "one leg"}) {
    std::string expected;
    for (const int threads : {1, 2, 5}) {
      auto trainer =
          make_small_trainer(run, {.num_threads = threads, .trainer = short_iterations()});
      iterate(*trainer, 5);
      if (threads == 1) expected = trainer->digest();
      CHECK(trainer->digest() == expected);
    }
  }
}

TEST_CASE("a pool that was used before trains the same run") {
  auto fresh = make_small_trainer("one leg", {.trainer = short_iterations()});
  iterate(*fresh, 2);
  Variation v{.trainer = short_iterations()};
  auto pool = make_small_pool("one leg", v);
  StepBuffers buffers(6, pool->spec());
  pool->reset(buffers.view());
  pool->step(std::vector<float>(6), buffers.view());
  Trainer used(pool, make_mlp_policy(pool->spec(), v.policy, 5), v.communicator, v.trainer);
  iterate(used, 2);
  CHECK(used.digest() == fresh->digest());
}

TEST_CASE("a trainer holds its pool until it is gone") {
  Variation v{.trainer = short_iterations()};
  auto pool = make_small_pool("one leg", v);
  auto policy = make_mlp_policy(pool->spec(), v.policy, 5);
  StepBuffers buffers(6, pool->spec());
  {
    Trainer trainer(pool, policy, v.communicator, v.trainer);
    CHECK_THROWS_AS(pool->reset(buffers.view()), Error);
    CHECK_THROWS_AS(Trainer(pool, policy, v.communicator, v.trainer), Error);
    CHECK_NOTHROW(trainer.iterate());
  }
  CHECK_NOTHROW(pool->reset(buffers.view()));
}

TEST_CASE("a run directory holds what it should, and nothing is written without one") {
  const Scratch scratch;
  const fs::path directory = scratch.path() / "run";
  TrainerOptions options = short_iterations(directory.string());
  options.total_steps = 4 * 144;
  auto trainer = make_small_trainer("CartPole-v1", {.trainer = options});
  int calls = 0;
  CHECK(trainer->train([&](const Report& report) {
    CHECK(report.iteration == ++calls);
    return true;
  }));
  CHECK(calls == 4);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    names.insert(entry.path().filename().string());
  CHECK(names ==
        std::set<std::string>{"checkpoints", "config.toml", "metrics.jsonl", "policy.safetensors"});
  CHECK(CheckpointStore(directory / "checkpoints").steps() == std::vector<std::int64_t>{576});

  // the policy file acts as the trained policy does
  auto loaded = load_policy(directory / "policy.safetensors");
  const std::vector<float> observation{0.01f, -0.2f, 0.03f, 0.4f};
  std::vector<float> here(1), there(1);
  trainer->policy().value(observation, here);
  loaded->value(observation, there);
  CHECK(here[0] == there[0]);

  // complete: training again does nothing
  CHECK(trainer->train([&](const Report&) { return ++calls, true; }));
  CHECK(calls == 4);
  CHECK_THROWS_AS(make_small_trainer("CartPole-v1", {.trainer = short_iterations()})->save(),
                  InvalidArgument);
}

TEST_CASE("metrics.jsonl has one line per iteration with the keys of a report, in order") {
  const Scratch scratch;
  auto trainer =
      make_small_trainer("CartPole-v1", {.trainer = short_iterations(scratch.path().string())});
  std::string expected;
  for (int i = 0; i < 3; ++i) expected += to_json(trainer->iterate()) + '\n';
  std::ifstream in(scratch.path() / "metrics.jsonl");
  CHECK(std::string((std::istreambuf_iterator<char>(in)), {}) == expected);
}

TEST_CASE("train ends at a boundary when it is asked to") {
  auto trainer = make_small_trainer("CartPole-v1", {.trainer = short_iterations()});
  SUBCASE("by the callback") {
    CHECK_FALSE(trainer->train([](const Report& report) { return report.iteration < 3; }));
    CHECK(trainer->iteration() == 3);
  }
  SUBCASE("by another thread") {
    std::thread other;
    trainer->train([&](const Report&) {
      if (!other.joinable()) other = std::thread([&] { trainer->request_stop(); });
      return true;
    });
    other.join();
    CHECK(trainer->stop_requested());
    const std::int64_t reached = trainer->iteration();
    trainer->train();
    CHECK(trainer->iteration() == reached);
    trainer->clear_stop();
    trainer->train([](const Report&) { return false; });
    CHECK(trainer->iteration() == reached + 1);
  }
  SUBCASE("by time") {
    CHECK_FALSE(trainer->train({}, 1e-9));
    CHECK(trainer->iteration() <= 1);
  }
  SUBCASE("by an exception of the callback, which leaves a usable run") {
    CHECK_THROWS_AS(trainer->train([](const Report&) -> bool { throw std::runtime_error("x"); }),
                    std::runtime_error);
    CHECK(trainer->iteration() == 1);
    CHECK_NOTHROW(trainer->iterate());
  }
}

namespace {

// fails at its 60th step in environment 2, once
class Fragile {
 public:
  static inline bool armed = true;
  Spec spec() const { return {.observation_size = 1, .action = Box{.size = 1}}; }
  void reset(Rng&) {}
  Outcome step(std::span<const float> action, Rng& rng) {
    if (++steps_ == 60 && armed && rng.state()[4] == 2) {
      armed = false;
      throw std::runtime_error("a gear broke");
    }
    return {.reward = action[0]};
  }
  void observe(std::span<float> out) const { out[0] = static_cast<float>(steps_); }
  template <class Visitor>
  void state(Visitor& v) {
    v("steps", steps_);
  }

 private:
  std::int32_t steps_ = 0;
};

}  // namespace

TEST_CASE("after an exception it refuses until resume, which goes back to the last boundary") {
  const Scratch scratch;
  const auto make = [](const std::string& directory) {
    auto pool = make_pool<Fragile>({.num_envs = 4, .num_threads = 1});
    auto policy = make_mlp_policy(pool->spec(), {.hidden = {8}}, 1);
    return std::make_unique<Trainer>(pool, policy, Communicator::single(),
                                     short_iterations(directory));
  };
  Fragile::armed = true;
  auto trainer = make(scratch.path().string());
  iterate(*trainer, 2);
  trainer->save();
  CHECK_THROWS_WITH_AS(trainer->iterate(), doctest::Contains("environment 2"), EnvError);
  CHECK_THROWS_WITH_AS(trainer->iterate(), doctest::Contains("call resume()"), Error);
  CHECK_THROWS_AS(trainer->save(), Error);
  CHECK(trainer->resume());
  CHECK(trainer->iteration() == 2);
  iterate(*trainer, 2);
  auto whole = make("");
  iterate(*whole, 4);
  CHECK(trainer->digest() == whole->digest());
}

TEST_CASE("a save that fails is told in the report, and training goes on") {
  const Scratch scratch;
  TrainerOptions options = short_iterations(scratch.path().string());
  options.save_interval_seconds = 0;
  auto trainer = make_small_trainer("CartPole-v1", {.trainer = options});
  trainer->iterate();
  // a file where the folder of the next checkpoint has to be
  std::ofstream(scratch.path() / "checkpoints" / "step-000000000288") << "in the way";
  std::string warnings;
  for (int i = 0; i < 3; ++i) warnings += trainer->iterate().warning;
  CHECK(warnings.find("a save failed") != std::string::npos);
  trainer->save();
  CHECK(CheckpointStore(scratch.path() / "checkpoints").steps().back() == 4 * 144);
}

TEST_CASE("parts that do not fit are refused with their numbers") {
  Variation v{.trainer = short_iterations()};
  auto pool = make_small_pool("one leg", v);
  auto cart = make_small_pool("CartPole-v1", v);
  auto policy = make_mlp_policy(pool->spec(), v.policy, 5);
  CHECK_THROWS_WITH_AS(Trainer(cart, policy, v.communicator, v.trainer),
                       doctest::Contains("observations of 9"), InvalidArgument);
  CHECK_THROWS_AS(Trainer(nullptr, policy, v.communicator, v.trainer), InvalidArgument);
  CHECK_THROWS_AS(Trainer(pool, nullptr, v.communicator, v.trainer), InvalidArgument);
  CHECK_THROWS_AS(Trainer(pool, policy, nullptr, v.trainer), InvalidArgument);
  v.trainer.total_steps = -1;
  CHECK_THROWS_WITH_AS(Trainer(pool, policy, v.communicator, v.trainer),
                       doctest::Contains("total_steps must be >= 0, got -1"), InvalidArgument);
}

TEST_CASE("two ranks train one policy, and resume together") {
  const Scratch scratch;
  const auto run = [&](bool resume, int iterations) {
    auto communicators = make_thread_communicators(2, 20);
    std::vector<std::string> digests(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        auto trainer = make_small_trainer(
            "one leg", {.env_offset = 6 * rank,
                        .trainer = short_iterations(scratch.path().string()),
                        .communicator = communicators[static_cast<std::size_t>(rank)]});
        if (resume) CHECK(trainer->resume());
        iterate(*trainer, iterations);
        if (!resume) trainer->save();
        if (!resume) iterate(*trainer, 2);
        digests[static_cast<std::size_t>(rank)] = trainer->digest();
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(digests[0] == digests[1]);
    return digests[0];
  };
  const std::string whole = run(false, 3);
  CHECK(run(true, 2) == whole);
}
