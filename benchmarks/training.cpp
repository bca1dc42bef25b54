// Whole training on HalfCheetah-v5: environment steps per CPU second, what a second thread gives to
// rollout and update, and how long a checkpoint holds training up. usage: training MODEL_FOLDER

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "canter/checkpoint/store.hpp"
#include "measure.hpp"
#include "plain_loop.hpp"
#include "samples.hpp"
#include "trained_pool.hpp"

namespace {

using bench::HalfCheetah;
using bench::PlainLoop;

// the raw loop that the rollout's scaling is held against: every thread steps environments of its
// own, without waiting for the others
class RawLoop {
 public:
  explicit RawLoop(const std::string& folder)
      : model_(bench::load(folder, HalfCheetah::kFile)),
        loop_(model_, bench::kNumEnvs, 7, 1000, bench::Data::one_per_env),
        actions_(bench::random_actions(1, bench::kNumEnvs, int(model_->nu), 1)) {}
  ~RawLoop() { mj_deleteModel(model_); }

  void run(int num_threads) {
    const auto work = [&](int thread) {
      const std::size_t size = bench::kNumEnvs / std::size_t(num_threads);
      const std::size_t first = std::size_t(thread) * size;
      for (int t = 0; t < bench::kHorizon; ++t) loop_.step(actions_.data(), first, first + size);
    };
    if (num_threads == 1) return work(0);
    std::thread other(work, 1);
    work(0);
    other.join();
  }

 private:
  mjModel* model_;
  PlainLoop<HalfCheetah> loop_;
  std::vector<float> actions_;
};

/// Wall seconds of the parts of one turn.
struct Turn {
  double rollout = 0, update = 0;
};

Turn iterate(bench::TrainedPool& trained, int count) {
  Turn turn;
  for (int i = 0; i < count; ++i) {
    const canter::Report report = trained.trainer->iterate();
    turn.rollout += report.time_physics + report.time_inference;
    turn.update += report.time_update;
  }
  return turn;
}

void scaling(const std::string& folder) {
  bench::TrainedPool one(folder, 1), two(folder, 2);
  RawLoop raw(folder);
  std::vector<double> rates, rollouts, updates;
  constexpr int kIterations = 4;
  for (int turn = -1; turn < 9; ++turn) {
    Turn alone;
    const double cpu =
        bench::time_of(bench::cpu_seconds, [&] { alone = iterate(one, kIterations); });
    const Turn pair = iterate(two, kIterations);
    const auto raw_seconds = [&](int threads) {
      return bench::time_of(bench::wall_seconds, [&] {
        for (int i = 0; i < kIterations; ++i) raw.run(threads);
      });
    };
    const double raw_alone = raw_seconds(1), raw_pair = raw_seconds(2);
    if (turn < 0) continue;
    rates.push_back(double(kIterations) * bench::kNumSamples / cpu);
    rollouts.push_back((alone.rollout / pair.rollout) / (raw_alone / raw_pair));
    updates.push_back(alone.update / pair.update);
  }
  bench::require(one.trainer->digest() == two.trainer->digest(), "runs with one and two threads");
  bench::report("training, HalfCheetah-v5, one thread", bench::median(rates), "steps/CPU s");
  bench::report("two threads, rollout scaling / raw loop's", bench::median(rollouts), "x");
  bench::report("two threads over one, update, minibatch 64", bench::median(updates), "x");
}

void update_scaling(int minibatch_size) {
  bench::Learner one(minibatch_size), two(minibatch_size);
  two.set_threads(canter::make_threads(2));
  const auto update = [](bench::Learner& learner) {
    learner.restore();
    learner.update();
  };
  const bench::Pair pair = bench::alternate(
      11, bench::wall_seconds, [&] { update(two); }, [&] { update(one); });
  bench::report("two threads over one, update, minibatch " + std::to_string(minibatch_size),
                pair.ratio, "x");
}

// what a save costs the thread that trains, against copying the same bytes
void checkpoint_stall(const std::string& folder) {
  const auto directory =
      std::filesystem::temp_directory_path() / ("canter-benchmark-" + std::to_string(getpid()));
  {
    bench::TrainedPool trained(folder, 1, 1024);
    trained.trainer->iterate();
    canter::CheckpointStore store(directory, {});
    std::vector<double> ratios;
    std::vector<std::byte> copy;
    for (int turn = 0; turn < 9; ++turn) {
      const double stall = bench::time_of(bench::wall_seconds, [&] {
        canter::StateDict state;
        trained.pool->save(state);
        trained.policy->save(state);
        store.save(turn, state, {});
      });
      store.wait();
      canter::StateDict state;
      trained.pool->save(state);
      trained.policy->save(state);
      copy.resize(state.num_bytes());
      const double seconds = bench::time_of(bench::wall_seconds, [&] {
        std::byte* to = copy.data();
        for (const canter::Array& array : state.arrays()) {
          std::memcpy(to, array.bytes.data(), array.bytes.size());
          to += array.bytes.size();
        }
      });
      if (turn > 1) ratios.push_back(stall / seconds);
    }
    bench::report("checkpoint stall / memcpy, 1024 environments", bench::median(ratios), "x");
  }
  std::filesystem::remove_all(directory);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: training MODEL_FOLDER\n", stderr), 2;
  scaling(argv[1]);
  update_scaling(512);
  checkpoint_stall(argv[1]);
}
