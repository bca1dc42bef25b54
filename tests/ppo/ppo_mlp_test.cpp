// Ppo with MlpPolicy: bits for any number of threads, ranks, and no allocation after the first
// update. This program counts every malloc, calloc, realloc and aligned allocation.

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "canter/ppo/mlp_policy.hpp"
#include "canter/ppo/ppo.hpp"
#include "ppo/filled_rollout.hpp"

namespace canter::test {

// other tests of this program read it too
std::atomic<long> num_allocations{0};

}  // namespace canter::test
using canter::test::num_allocations;

// sanitizers bring their own allocator
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr bool kCountsAllocations = true;
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, size);
}
}
#else
constexpr bool kCountsAllocations = false;
#endif

namespace {

using canter::Communicator;
using canter::Ppo;
using canter::PpoOptions;
using canter::Rollout;
using canter::UpdateReport;

canter::Spec spec() {
  return {.observation_size = 17, .action = canter::Box{.size = 6}};
}

const PpoOptions kOptions{.horizon = 32, .num_epochs = 3, .num_minibatches = 5};

// everything that a checkpoint would hold, after a few iterations
std::vector<std::byte> train(std::shared_ptr<canter::Threads> threads, Communicator& communicator,
                             std::uint64_t policy_seed) {
  const auto policy = canter::make_mlp_policy(spec(), {}, policy_seed);
  Ppo ppo(kOptions, 10000, 1, *policy);
  if (threads) policy->set_threads(threads), ppo.set_threads(threads);
  Ppo::synchronize(*policy, communicator);
  Rollout rollout(kOptions.horizon, 13, policy->spec());
  for (std::uint32_t iteration = 0; iteration < 3; ++iteration) {
    fill(rollout, *policy,
         {.first_id = 13 * static_cast<std::uint32_t>(communicator.rank()),
          .first_step = 100 * iteration});
    const UpdateReport report = ppo.update(rollout, *policy, communicator, 416 * iteration);
    ppo.update_moments(rollout, *policy, communicator);
    CHECK(report.num_minibatches == 15);
    CHECK(report.non_finite == "");
  }
  canter::StateDict state;
  policy->save(state);
  ppo.save(state);
  std::vector<std::byte> bytes;
  for (const auto& array : state.arrays())
    if (!array.name.starts_with("env/"))
      bytes.insert(bytes.end(), array.bytes.begin(), array.bytes.end());
  return bytes;
}

}  // namespace

TEST_CASE("MlpPolicy: the same bits for 1, 2 and 5 threads") {
  const auto communicator = Communicator::single();
  const auto expected = train(nullptr, *communicator, 1);
  for (const int num_threads : {1, 2, 5})
    CHECK(train(canter::make_threads(num_threads), *communicator, 1) == expected);
}

TEST_CASE("MlpPolicy: two ranks end with the same bits") {
  auto ranks = canter::make_thread_communicators(2);
  std::vector<std::byte> states[2];
  std::thread other([&] { states[1] = train(nullptr, *ranks[1], 2); });
  states[0] = train(nullptr, *ranks[0], 1);
  other.join();
  CHECK(states[0] == states[1]);
}

TEST_CASE("MlpPolicy: before the first step every ratio is 1, also with moments in use") {
  const auto policy = canter::make_mlp_policy(spec(), {}, 1);
  Rollout rollout(32, 13, policy->spec());
  fill(rollout, *policy);
  Ppo ppo({.horizon = 32, .num_epochs = 1, .num_minibatches = 1}, 0, 1, *policy);
  for (std::uint32_t iteration = 0; iteration < 3; ++iteration) {
    fill(rollout, *policy, {.first_step = 100 * iteration});
    const UpdateReport report = ppo.update(rollout, *policy, *Communicator::single(), 0);
    ppo.update_moments(rollout, *policy, *Communicator::single());
    CHECK(report.clip_fraction == 0);
    CHECK(std::abs(report.approx_kl) <= 1e-6);
  }
}

TEST_CASE("a learning rate that is far too high leaves everything finite") {
  const auto policy = canter::make_mlp_policy(spec(), {}, 1);
  Rollout rollout(32, 13, policy->spec());
  Ppo ppo({.horizon = 32, .num_minibatches = 4, .learning_rate = 10.0f}, 0, 1, *policy);
  for (std::uint32_t iteration = 0; iteration < 50; ++iteration) {
    fill(rollout, *policy, {.first_step = 100 * iteration});
    ppo.update(rollout, *policy, *Communicator::single(), 0);
    ppo.update_moments(rollout, *policy, *Communicator::single());
  }
  for (const float p : policy->parameters()) REQUIRE(std::isfinite(p));
  fill(rollout, *policy);
  for (const float a : rollout.actions) REQUIRE(std::isfinite(a));
  canter::StateDict state;
  ppo.save(state);
  for (const char* name : {"ppo/adam/first_moments", "ppo/adam/second_moments"}) {
    const canter::Array* array = state.find(name);
    for (const float m : state.get<float>(name, array->shape)) REQUIRE(std::isfinite(m));
  }
}

TEST_CASE("after the first update nothing is allocated") {
  if (!kCountsAllocations) return;
  for (const int num_threads : {1, 2}) {
    const auto threads = canter::make_threads(num_threads);
    const auto policy = canter::make_mlp_policy(spec(), {}, 1);
    policy->set_threads(threads);
    Ppo ppo(kOptions, 10000, 1, *policy);
    ppo.set_threads(threads);
    const auto communicator = Communicator::single();
    Rollout rollout(kOptions.horizon, 13, policy->spec());
    const auto count = [&](bool plant) {
      fill(rollout, *policy);
      const long before = num_allocations.load();
      if (plant) std::make_unique<std::vector<int>>(10)->at(3) = 1;
      ppo.update(rollout, *policy, *communicator, 0);
      ppo.update_moments(rollout, *policy, *communicator);
      return num_allocations.load() - before;
    };
    count(false);
    for (int i = 0; i < 5; ++i) CHECK(count(false) == 0);
    CHECK(count(true) > 0);  // the counter counts
  }
}
