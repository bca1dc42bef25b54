// Heap allocations of pool steps and of whole training iterations after warm-up.
// usage: allocations MODEL_FOLDER

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "canter/env/pool.hpp"
#include "canter/env/registry.hpp"
#include "canter/ppo/mlp_policy.hpp"
#include "canter/trainer.hpp"
#include "measure.hpp"
#include "plain_loop.hpp"

// every allocation of the process, by whatever library and thread, comes through here
namespace {
std::atomic<long> num_allocations{0};
}
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  ++num_allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  ++num_allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) {
  ++num_allocations;
  return __libc_realloc(old, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  ++num_allocations;
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  *out = memalign(alignment, size);
  return *out ? 0 : ENOMEM;
}
}

namespace {

template <class Work>
long allocations_of(Work&& work) {
  const long before = num_allocations;
  work();
  return num_allocations - before;
}

canter::PoolOptions options(const std::string& folder) {
  // short episodes, so that resets and final observations are counted too
  return {.num_envs = 64,
          .seed = 7,
          .num_threads = 2,
          .max_episode_steps = 20,
          .model_path = folder + "/" + bench::HalfCheetah::kFile};
}

void pool_steps(const std::string& folder) {
  auto pool = canter::make_pool(bench::HalfCheetah::kName, options(folder));
  canter::StepBuffers buffers(64, pool->spec());
  const auto actions = bench::random_actions(1, 64, pool->spec().action_size(), 1);
  const auto steps = [&] {
    for (int t = 0; t < 100; ++t) pool->step(actions, buffers.view());
  };
  pool->reset(buffers.view());
  steps();
  bench::report("allocations per pool step", double(allocations_of(steps)) / 100, "mallocs");
}

void iterations(const std::string& folder) {
  std::shared_ptr<canter::EnvPool> pool =
      canter::make_pool(bench::HalfCheetah::kName, options(folder));
  auto policy = canter::make_mlp_policy(pool->spec(), {}, 7);
  policy->set_threads(pool->threads());
  canter::Trainer trainer(pool, policy, canter::Communicator::single(),
                          {.ppo = {.horizon = 32, .num_epochs = 2}, .total_steps = 1'000'000});
  const auto iterate = [&] {
    for (int i = 0; i < 3; ++i) trainer.iterate();
  };
  iterate();
  bench::report("allocations per iteration", double(allocations_of(iterate)) / 3, "mallocs");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: allocations MODEL_FOLDER\n", stderr), 2;
  // the counter itself is seen to count
  bench::require(allocations_of([] { std::free(std::malloc(10)); }) == 1, "counted allocations");
  pool_steps(argv[1]);
  iterations(argv[1]);
}
