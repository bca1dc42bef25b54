// After warm-up an iteration asks the heap for nothing, with and without files.
// Sanitizers bring a heap of their own, whose functions cannot be replaced.

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>

#include "trainer/runs.hpp"

// the C library's own functions behind the names that this program replaces
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
}

namespace {

std::atomic<std::int64_t> num_allocations{0};

}  // namespace

extern "C" {
void* malloc(std::size_t size) {
  ++num_allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  ++num_allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  ++num_allocations;
  return __libc_realloc(memory, size);
}
}

using namespace canter;
using namespace canter::testing;

namespace {

// the most allocations of any of 8 iterations after 4
std::int64_t most_allocations(Trainer& trainer) {
  iterate(trainer, 4);
  std::int64_t most = 0;
  for (int i = 0; i < 8; ++i) {
    const std::int64_t before = num_allocations;
    trainer.iterate();
    most = std::max<std::int64_t>(most, num_allocations - before);
  }
  return most;
}

// CartPole's kin with one allocation in one step of one episode
class Hoarder {
 public:
  Spec spec() const { return {.observation_size = 1, .action = Box{.size = 1}}; }
  void reset(Rng&) { steps_ = 0; }
  Outcome step(std::span<const float>, Rng&) {
    if (++steps_ == 150) hoard_ = std::make_unique<double>(steps_);
    return {.reward = 1};
  }
  void observe(std::span<float> out) const { out[0] = 0; }

 private:
  int steps_ = 0;
  std::unique_ptr<double> hoard_;
};

}  // namespace

TEST_CASE("an iteration allocates nothing after warm-up") {
  for (const std::string run : {"CartPole-v1", "one leg"})
    for (const int threads : {1, 2})
      for (const bool writes : {false, true}) {
        CAPTURE(run);
        CAPTURE(threads);
        CAPTURE(writes);
        const Scratch scratch;
        auto trainer = make_small_trainer(
            run, {.num_threads = threads,
                  .trainer = short_iterations(writes ? scratch.path().string() : "")});
        CHECK(most_allocations(*trainer) == 0);
      }
}

TEST_CASE("one planted allocation is seen") {
  auto pool = make_pool<Hoarder>({.num_envs = 1, .num_threads = 1});
  Trainer trainer(pool, make_mlp_policy(pool->spec(), {.hidden = {8}}), Communicator::single(),
                  short_iterations());
  CHECK(most_allocations(trainer) == 1);
}

#endif
