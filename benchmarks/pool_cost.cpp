// What a pool costs beside the physics: time per step, time to construct, memory.
// usage: pool_cost MODEL_FOLDER            time
//        pool_cost MODEL_FOLDER NUM_ENVS   memory of a pool in use

#include <mujoco/mujoco.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "canter/env/mujoco/model.hpp"
#include "canter/env/pool.hpp"
#include "canter/env/registry.hpp"
#include "measure.hpp"
#include "plain_loop.hpp"

namespace {
long num_physics_steps = 0;
}

// in this program the physics does nothing: what is left is the pool. The library's calls come here
// because the program's symbols are found before those of libmujoco.
extern "C" void mj_step(const mjModel*, mjData*) {
  ++num_physics_steps;
}

namespace {

canter::PoolOptions options(const std::string& path, int num_envs) {
  return {.num_envs = num_envs, .seed = 7, .num_threads = 1, .model_path = path};
}

void overhead(const std::string& path, int num_envs) {
  auto pool = canter::make_pool(bench::HalfCheetah::kName, options(path, num_envs));
  canter::StepBuffers buffers(num_envs, pool->spec());
  const auto actions = bench::random_actions(1, num_envs, pool->spec().action_size(), 1);
  canter::StepView view = buffers.view();
  view.metrics = {};
  pool->reset(view);
  const int num_steps = 51200 / num_envs;  // fewer than an episode: no resets
  std::vector<double> seconds;
  const long before = num_physics_steps;
  for (int turn = 0; turn < 10; ++turn) {
    pool->reset(view);
    seconds.push_back(bench::time_of(bench::cpu_seconds, [&] {
      for (int t = 0; t < num_steps; ++t) pool->step(actions, view);
    }));
  }
  const long expected = 10L * num_steps * num_envs * bench::HalfCheetah::kFrameSkip;
  bench::require(num_physics_steps - before == expected, "physics steps taken and counted");
  bench::report(
      "pool overhead per step without physics, " + std::to_string(num_envs) + " x HalfCheetah-v5",
      1e6 * bench::median(seconds) / (double(num_steps) * num_envs), "us");
}

// the registry loads the model too: that part is measured alone and taken off
void construct(const std::string& path) {
  const bench::Pair pair = bench::alternate(
      15, bench::wall_seconds,
      [&] { canter::make_pool(bench::HalfCheetah::kName, options(path, 1024)); },
      [&] { canter::mujoco::load_model(path); });
  bench::report("construct 1024 x HalfCheetah-v5, model loaded", 1e3 * (pair.ours - pair.theirs),
                "ms");
}

void memory(const std::string& path, int num_envs) {
  auto pool = canter::make_pool(bench::HalfCheetah::kName, options(path, num_envs));
  canter::StepBuffers buffers(num_envs, pool->spec());
  const auto actions = bench::random_actions(1, num_envs, pool->spec().action_size(), 1);
  pool->reset(buffers.view());
  for (int t = 0; t < 3; ++t) pool->step(actions, buffers.view());
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("Pss:", 0) == 0) std::printf("%ld\n", 1024 * std::stol(line.substr(4)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fputs("usage: pool_cost MODEL_FOLDER [NUM_ENVS]\n", stderr), 2;
  const std::string path = std::string(argv[1]) + "/" + bench::HalfCheetah::kFile;
  if (argc > 2) return memory(path, std::stoi(argv[2])), 0;
  overhead(path, 64);
  overhead(path, 1024);
  construct(path);
}
