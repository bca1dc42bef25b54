// canter as a contender in turns with its peers (see peers/turns.py): prints one line when ready,
// then for every line `go SECONDS` works for about that long and answers
// [environment steps, wall seconds, CPU seconds].
// usage: contender pool TASK MODEL_PATH NUM_ENVS NUM_THREADS
//        contender train MODEL_FOLDER NUM_THREADS

#include <functional>
#include <iostream>
#include <string>

#include "measure.hpp"
#include "plain_loop.hpp"
#include "trained_pool.hpp"

namespace {

// `work` does a little and returns its environment steps
void serve(const std::function<long()>& work) {
  work();
  std::printf("{\"version\": \"canter\"}\n");
  std::fflush(stdout);
  std::string word;
  double seconds = 0;
  while (std::cin >> word >> seconds) {
    long steps = 0;
    const double cpu = bench::cpu_seconds(), wall = bench::wall_seconds();
    while (bench::wall_seconds() - wall < seconds) steps += work();
    std::printf("[%ld, %.6f, %.6f]\n", steps, bench::wall_seconds() - wall,
                bench::cpu_seconds() - cpu);
    std::fflush(stdout);
  }
}

void serve_pool(const std::string& task, const std::string& path, int num_envs, int num_threads) {
  auto pool = canter::make_pool(
      task, {.num_envs = num_envs, .seed = 7, .num_threads = num_threads, .model_path = path});
  canter::StepBuffers buffers(num_envs, pool->spec());
  const auto* box = std::get_if<canter::Box>(&pool->spec().action);
  constexpr int kNumActions = 16;
  const auto actions =
      bench::random_actions(kNumActions, num_envs, pool->spec().action_size(), box->high_of(0));
  const std::size_t size = actions.size() / kNumActions;
  pool->reset(buffers.view());
  std::size_t step = 0;
  serve([&] {
    pool->step({&actions[step++ % kNumActions * size], size}, buffers.view());
    return long(num_envs);
  });
}

void serve_trainer(const std::string& folder, int num_threads) {
  bench::TrainedPool trained(folder, num_threads);
  serve([&] {
    trained.trainer->iterate();
    return long(bench::kNumSamples);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  if (kind == "pool" && argc == 6) {
    serve_pool(argv[2], argv[3], std::stoi(argv[4]), std::stoi(argv[5]));
  } else if (kind == "train" && argc == 4) {
    serve_trainer(argv[2], std::stoi(argv[3]));
  } else {
    std::fputs(
        "usage: contender pool TASK MODEL_PATH NUM_ENVS NUM_THREADS\n"
        "       contender train MODEL_FOLDER NUM_THREADS\n",
        stderr);
    return 2;
  }
}
