// The step path allocates nothing after warm-up: malloc and its family are counted in every thread.

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>

#include "env/models.hpp"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {
std::atomic<bool> counting = false;
std::atomic<int> num_allocations = 0;
void count() {
  if (counting.load(std::memory_order_relaxed)) num_allocations.fetch_add(1);
}
}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) {
  count();
  return __libc_malloc(size);
}
void* calloc(std::size_t number, std::size_t size) {
  count();
  return __libc_calloc(number, size);
}
void* realloc(void* block, std::size_t size) {
  count();
  return __libc_realloc(block, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  count();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  count();
  *block = __libc_memalign(alignment, size);
  return *block ? 0 : 12;
}
}

using namespace canter;
using namespace canter::testing;

namespace {

// allocations of 200 steps after warm-up; many episodes end in them
int count_steps(EnvPool& pool) {
  StepBuffers step(pool.num_envs(), pool.spec());
  std::vector<std::vector<float>> actions;
  for (int t = 0; t < 8; ++t) actions.push_back(random_actions(pool, t));
  pool.reset(step.view());
  auto run = [&](std::size_t num_steps) {
    for (std::size_t t = 0; t < num_steps; ++t) pool.step(actions[t % 8], step.view());
  };
  run(60);
  const auto before = pool.statistics().episodes;
  num_allocations = 0;
  counting = true;
  run(200);
  counting = false;
  CHECK(pool.statistics().episodes > before + 10);
  return num_allocations;
}

// planted: one allocation in one step of one environment
class Wasteful : public Runner {
 public:
  Outcome after_step(const mujoco::Simulation& sim, std::span<const float> action) {
    if (++num_steps_ == 150) kept_ = std::make_unique<int>(1);
    return Runner::after_step(sim, action);
  }

 private:
  int num_steps_ = 0;
  std::unique_ptr<int> kept_;
};

}  // namespace

TEST_CASE("a step allocates nothing after warm-up") {
  for (const int num_threads : {1, 2}) {
    auto counter = make_pool<Counter>({.num_envs = 16, .num_threads = num_threads});
    CHECK(count_steps(*counter) == 0);
    for (const bool persistent : {false, true}) {
      auto runner = mujoco::make_pool<Runner>(
          mujoco::parse_model(runner_xml()),
          {.num_envs = 16, .num_threads = num_threads, .persistent = persistent});
      CHECK(count_steps(*runner) == 0);
    }
  }
}

TEST_CASE("a planted allocation is seen") {
  auto pool = mujoco::make_pool<Wasteful>(mujoco::parse_model(runner_xml()),
                                          {.num_envs = 4, .num_threads = 1});
  CHECK(count_steps(*pool) == 4);
}

#endif
