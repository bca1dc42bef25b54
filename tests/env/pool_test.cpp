// The pool's own business, tried with environments in plain C++: endings, seeds, masks, arguments.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <set>
#include <stdexcept>
#include <thread>

#include "canter/base/error.hpp"
#include "env/models.hpp"

using namespace canter;
using namespace canter::testing;

namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<float> ones(const EnvPool& pool, float value = 1) {
  return std::vector<float>(static_cast<std::size_t>(pool.num_envs()), value);
}

}  // namespace

TEST_CASE("an episode that reaches the time limit is reset in the same step") {
  auto pool = make_pool<Counter>({.num_envs = 3, .seed = 7});
  StepBuffers step(3, pool->spec());
  pool->reset(step.view());
  const std::vector<float> start = step.observations;
  for (int t = 1; t <= 6; ++t) {
    CAPTURE(t);
    pool->step(ones(*pool, 0.25f), step.view());
    for (int i = 0; i < 3; ++i) {
      const auto k = static_cast<std::size_t>(i);
      CHECK(step.observations[2 * k] == static_cast<float>(t % 4));
      CHECK(step.truncated[k] == (t == 4));
      CHECK(step.terminated[k] == 0);
      CHECK(step.diverged[k] == 0);
      CHECK(step.rewards[k] == 0.25f);
      if (t == 4) {
        // the last observation of the old episode, and a start of a new one
        CHECK(step.final_observations[2 * k] == 4.0f);
        CHECK(step.final_observations[2 * k + 1] == start[2 * k + 1]);
        CHECK(step.observations[2 * k + 1] != start[2 * k + 1]);
        CHECK(step.episode_returns[k] == 1.0f);
        CHECK(step.episode_lengths[k] == 4);
      }
    }
  }
  CHECK(pool->statistics().episodes == 3);
  CHECK(pool->statistics().truncated == 3);
  CHECK(pool->statistics().terminated == 0);
  CHECK(pool->statistics().env_steps == 18);
}

TEST_CASE("terminated and truncated are independent") {
  auto pool = make_pool<Counter>({.num_envs = 3, .seed = 7});
  StepBuffers step(3, pool->spec());
  pool->reset(step.view());
  for (int t = 0; t < 3; ++t) pool->step(ones(*pool), step.view());
  pool->step(std::vector<float>{9, 1, 1}, step.view());
  CHECK(step.terminated == std::vector<std::uint8_t>{1, 0, 0});
  CHECK(step.truncated == std::vector<std::uint8_t>{1, 1, 1});
  CHECK(step.episode_returns == std::vector<float>{12, 4, 4});
  pool->step(std::vector<float>{1, 9, 1}, step.view());
  CHECK(step.terminated == std::vector<std::uint8_t>{0, 1, 0});
  CHECK(step.truncated == std::vector<std::uint8_t>{0, 0, 0});
  CHECK(step.episode_lengths[1] == 1);
}

TEST_CASE("the time limit can be given or switched off") {
  for (const int limit : {0, 2}) {
    auto pool = make_pool<Counter>({.num_envs = 1, .max_episode_steps = limit});
    StepBuffers step(1, pool->spec());
    pool->reset(step.view());
    for (int t = 1; t <= 9; ++t) {
      pool->step(ones(*pool), step.view());
      CHECK(step.truncated[0] == (limit && t % limit == 0));
    }
  }
}

TEST_CASE("returns accumulate in double") {
  auto pool = make_pool<Counter>({.num_envs = 1, .max_episode_steps = 100'001});
  StepBuffers step(1, pool->spec());
  pool->reset(step.view());
  double expected = 0;
  for (int t = 0; t < 100'001; ++t) {
    pool->step(ones(*pool, 0.1f), step.view());
    expected += static_cast<double>(0.1f);
  }
  CHECK(step.episode_returns[0] == static_cast<float>(expected));
}

TEST_CASE("optional buffers may be left out") {
  auto pool = make_pool<Counter>({.num_envs = 2, .seed = 3});
  StepBuffers all(2, pool->spec()), some(2, pool->spec());
  pool->reset(all.view());
  auto other = make_pool<Counter>({.num_envs = 2, .seed = 3});
  StepView view;
  view.observations = some.observations;
  view.rewards = some.rewards;
  view.terminated = some.terminated;
  view.truncated = some.truncated;
  other->reset(view);
  for (int t = 0; t < 6; ++t) {
    pool->step(ones(*pool), all.view());
    other->step(ones(*pool), view);
    CHECK(all.observations == some.observations);
    CHECK(all.truncated == some.truncated);
  }
}

TEST_CASE("each environment has a stream of its own that depends on seed and global id alone") {
  auto starts = [](PoolOptions options) {
    auto pool = make_pool<Counter>(options);
    StepBuffers step(pool->num_envs(), pool->spec());
    pool->reset(step.view());
    std::vector<float> start;
    for (int i = 0; i < pool->num_envs(); ++i)
      start.push_back(step.observations[static_cast<std::size_t>(2 * i + 1)]);
    return start;
  };
  const auto eight = starts({.num_envs = 8, .seed = 7});
  CHECK(std::set<float>(eight.begin(), eight.end()).size() == 8);
  CHECK(starts({.num_envs = 8, .seed = 7}) == eight);
  // neither pool size nor threads nor shards matter
  const auto sixteen = starts({.num_envs = 16, .seed = 7, .num_threads = 3, .num_shards = 5});
  CHECK(std::equal(eight.begin(), eight.end(), sixteen.begin()));
  // another rank continues where this one's ids end
  const auto rank1 = starts({.num_envs = 8, .seed = 7, .env_offset = 8});
  CHECK(std::equal(rank1.begin(), rank1.end(), sixteen.begin() + 8));
  // neighbouring seeds share no shifted streams
  const auto next = starts({.num_envs = 8, .seed = 8});
  for (const float x : next) CHECK(std::ranges::find(sixteen, x) == sixteen.end());
  // a seed per environment keys it alone, wherever it stands
  const auto keyed = starts({.num_envs = 3, .seeds = {5, 6, 5}});
  CHECK(keyed[0] == keyed[2]);
  CHECK(keyed[0] != keyed[1]);
  CHECK(starts({.num_envs = 1, .seeds = {6}, .env_offset = 9})[0] == keyed[1]);
}

TEST_CASE("reset with a seed reproduces a new pool; plain reset goes on to new episodes") {
  auto pool = make_pool<Counter>({.num_envs = 4, .seed = 7});
  StepBuffers step(4, pool->spec());
  pool->reset(step.view());
  const auto first = step.observations;
  pool->reset(step.view());
  CHECK(step.observations != first);
  pool->step(ones(*pool), step.view());
  pool->reset(7, step.view());
  CHECK(step.observations == first);
  pool->reset(8, step.view());
  CHECK(step.observations != first);
  const std::vector<std::uint64_t> seeds = {1, 2, 3, 1};
  pool->reset(seeds, step.view());
  CHECK(step.observations[1] == step.observations[7]);
  CHECK(pool->options().seeds == seeds);
}

TEST_CASE("a masked reset leaves the other rows alone") {
  auto pool = make_pool<Counter>({.num_envs = 5, .seed = 7, .num_shards = 2});
  StepBuffers step(5, pool->spec());
  pool->reset(step.view());
  pool->step(ones(*pool), step.view());
  const StepBuffers before = step;
  pool->reset(std::vector<std::uint8_t>{0, 1, 0, 0, 1}, step.view());
  for (const std::size_t i : {0u, 2u, 3u}) {
    CHECK(step.observations[2 * i] == 1);
    CHECK(step.observations[2 * i + 1] == before.observations[2 * i + 1]);
    CHECK(step.rewards[i] == 1);
  }
  for (const std::size_t i : {1u, 4u}) {
    CHECK(step.observations[2 * i] == 0);
    CHECK(step.observations[2 * i + 1] != before.observations[2 * i + 1]);
    CHECK(step.rewards[i] == 0);
  }
  // their clocks start again, the others' run on
  for (int t = 2; t <= 4; ++t) pool->step(ones(*pool), step.view());
  CHECK(step.truncated == std::vector<std::uint8_t>{1, 0, 1, 1, 0});
}

TEST_CASE("arrays that the caller keeps do not change") {
  auto pool = make_pool<Counter>({.num_envs = 2});
  StepBuffers first(2, pool->spec()), later(2, pool->spec());
  pool->reset(first.view());
  const StepBuffers copy = first;
  for (int t = 0; t < 5; ++t) pool->step(ones(*pool), later.view());
  CHECK(first.observations == copy.observations);
  CHECK(first.rewards == copy.rewards);
  // observations() is the pool's own: the latest
  const auto own = pool->observations();
  CHECK(std::equal(own.begin(), own.end(), later.observations.begin()));
}

namespace {

struct Choice {
  Spec spec() const { return {.observation_size = 1, .action = Discrete{3}}; }
  void reset(Rng&) {}
  Outcome step(std::span<const float> action, Rng&) { return {.reward = action[0]}; }
  void observe(std::span<float> out) const { out[0] = 0; }
};

}  // namespace

TEST_CASE("wrong arguments are named with value and expectation") {
  CHECK(message_of([] { make_pool<Counter>({.num_envs = 0}); }) == "num_envs must be >= 1, got 0");
  CHECK(contains(message_of([] { make_pool<Counter>({.num_envs = 2, .seeds = {1}}); }), "seeds"));
  for (const std::int64_t offset :
       {std::int64_t{-1}, std::int64_t{1} << 32, std::numeric_limits<std::int64_t>::max()})
    CHECK(contains(message_of([=] { make_pool<Counter>({.env_offset = offset}); }), "env_offset"));
  CHECK(contains(message_of([] { make_pool<Counter>({.num_shards = -1}); }), "num_shards"));
  CHECK(contains(message_of([] { make_pool<Counter>({.max_episode_steps = -2}); }), "got -2"));

  auto pool = make_pool<Choice>({.num_envs = 2});
  StepBuffers step(2, pool->spec()), wrong(3, pool->spec());
  CHECK_THROWS_AS(pool->step(ones(*pool), step.view()), InvalidArgument);  // before the first reset
  pool->reset(step.view());
  CHECK(contains(message_of([&] { pool->step(std::vector<float>{1}, step.view()); }),
                 "actions must have 2 x 1 = 2 entries, got 1"));
  CHECK(contains(message_of([&] { pool->step(ones(*pool), wrong.view()); }), "observations"));
  for (const float bad : {-1.0f, 3.0f, 0.5f, NAN}) {
    const std::string text = message_of([&] {
      pool->step(std::vector<float>{1, bad}, step.view());
    });
    CHECK(contains(text, "action of environment 1 must be one of 0 .. 2"));
  }
  CHECK_THROWS_AS(pool->state(0), InvalidArgument);
  CHECK_THROWS_AS(pool->state(2), InvalidArgument);
  // nothing of this harmed the pool
  pool->step(std::vector<float>{0, 2}, step.view());
  CHECK(step.rewards == std::vector<float>{0, 2});
}

namespace {

// fails in one environment only: action 3 throws, 4 gives a bad reward, 5 a bad observation
class Fragile {
 public:
  Spec spec() const { return {.observation_size = 1, .action = Box{.size = 1}}; }
  void reset(Rng&) { x_ = 0; }
  Outcome step(std::span<const float> action, Rng&) {
    if (action[0] == 3) throw std::runtime_error("no such thing");
    x_ = action[0] == 5 ? NAN : x_ + 1;
    if (std::isnan(action[0])) reached_ = true;
    return {.reward = action[0] == 4 ? INFINITY : 1.0f};
  }
  void observe(std::span<float> out) const { out[0] = reached_ ? -1 : x_; }

 private:
  float x_ = 0;
  bool reached_ = false;
};

}  // namespace

TEST_CASE("what is not finite ends the episode with the last finite observation") {
  auto pool = make_pool<Fragile>({.num_envs = 4, .num_shards = 2});
  StepBuffers step(4, pool->spec());
  pool->reset(step.view());
  pool->step(ones(*pool), step.view());
  for (const float bad : {4.0f, 5.0f, NAN, -INFINITY}) {
    pool->step(ones(*pool), step.view());
    const float last = step.observations[2];
    pool->step(std::vector<float>{1, 1, bad, 1}, step.view());
    CHECK(step.terminated == std::vector<std::uint8_t>{0, 0, 1, 0});
    CHECK(step.diverged == std::vector<std::uint8_t>{0, 0, 1, 0});
    CHECK(step.truncated == std::vector<std::uint8_t>{0, 0, 0, 0});
    CHECK(step.rewards == std::vector<float>{1, 1, 0, 1});
    CHECK(step.final_observations[2] == last);
    CHECK(step.observations[2] == 0);
    CHECK(step.observations[1] == step.observations[3]);
  }
  CHECK(pool->statistics().diverged == 4);
}

TEST_CASE("an exception in a hook arrives with the environment's index; reset repairs the pool") {
  for (const int num_shards : {1, 3}) {
    auto pool = make_pool<Fragile>({.num_envs = 6, .num_threads = 2, .num_shards = num_shards});
    StepBuffers step(6, pool->spec());
    pool->reset(step.view());
    pool->step(ones(*pool), step.view());
    try {
      pool->step(std::vector<float>{1, 1, 1, 1, 3, 3}, step.view());
      FAIL("no exception");
    } catch (const EnvError& error) {
      CHECK(error.index() == 4);
      CHECK(std::string(error.what()) == "environment 4: step threw: no such thing");
    }
    // all others were stepped, the failed ones repeat their last observation
    CHECK(step.observations == std::vector<float>{2, 2, 2, 2, 1, 1});
    CHECK(step.rewards == std::vector<float>{1, 1, 1, 1, 0, 0});
    CHECK_THROWS_AS(pool->step(ones(*pool), step.view()), Error);
    CHECK_THROWS_AS(pool->reset(std::vector<std::uint8_t>{1, 0, 0, 0, 0, 0}, step.view()), Error);
    pool->reset(step.view());
    pool->step(ones(*pool), step.view());
    CHECK(step.observations == std::vector<float>(6, 1.0f));
  }
}

TEST_CASE("a held pool obeys its holder alone") {
  auto pool = make_pool<Counter>({.num_envs = 2, .seed = 1});
  StepBuffers step(2, pool->spec());
  {
    EnvPool::Hold hold(*pool, "trainer 'a'");
    hold.reset(step.view());
    hold.step(ones(*pool), step.view());
    CHECK(contains(message_of([&] { pool->step(ones(*pool), step.view()); }), "trainer 'a'"));
    CHECK_THROWS_AS(pool->reset(step.view()), Error);
    CHECK_THROWS_AS(pool->reset(1, step.view()), Error);
    CHECK_THROWS_AS(pool->reset(std::vector<std::uint8_t>{1, 1}, step.view()), Error);
    CHECK_THROWS_AS(EnvPool::Hold second(*pool), Error);
    StateDict state;
    pool->save(state);
    CHECK_THROWS_AS(pool->load(state), Error);
    hold.load(state);
    CHECK(pool->statistics().env_steps == 2);
  }
  pool->step(ones(*pool), step.view());
  CHECK(step.observations[0] == 2);
}

namespace {

std::atomic<bool> entered = false, leave = false;

struct Slow {
  Spec spec() const { return {.observation_size = 1, .action = Box{.size = 1}}; }
  void reset(Rng&) {}
  Outcome step(std::span<const float>, Rng&) {
    entered = true;
    while (!leave) std::this_thread::yield();
    return {};
  }
  void observe(std::span<float> out) const { out[0] = 0; }
};

}  // namespace

TEST_CASE("a second thread's call is refused at once") {
  auto pool = make_pool<Slow>({.num_envs = 1, .num_threads = 1});
  StepBuffers step(1, pool->spec()), other(1, pool->spec());
  pool->reset(step.view());
  std::thread stepping([&] { pool->step(ones(*pool), step.view()); });
  while (!entered) std::this_thread::yield();
  CHECK_THROWS_AS(pool->step(ones(*pool), other.view()), Error);
  CHECK_THROWS_AS(pool->reset(other.view()), Error);
  leave = true;
  stepping.join();
  pool->step(ones(*pool), step.view());
}

TEST_CASE("a pool that no machine can hold is refused before memory is touched") {
  const Spec spec{.observation_size = std::numeric_limits<int>::max()};
  const ShardFactory none = [](int, int) -> std::unique_ptr<Shard> { return nullptr; };
  CHECK_THROWS_WITH_AS(
      EnvPool("huge", spec, {.num_envs = std::numeric_limits<int>::max()}, nullptr, none),
      doctest::Contains("GiB of memory"), InvalidArgument);
}
