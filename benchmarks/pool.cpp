// Pool steps against the loops of plain_loop.hpp: one thread each, same actions, same trajectories,
// final states equal in every bit. usage: canter_bench_pool MODEL_FOLDER

#include <cstring>

#include "canter/env/pool.hpp"
#include "canter/env/registry.hpp"
#include "measure.hpp"
#include "plain_loop.hpp"

namespace {

using bench::Data;
using bench::PlainLoop;

/// Sizes of one comparison.
struct Case {
  int num_envs;
  int num_pairs;
  int num_steps;  ///< per turn
  int max_steps;  ///< time limit; environments are staggered over it when `stagger`
  bool stagger;
};

/// Both sides of a comparison, set up alike.
template <class Task>
class Sides {
 public:
  Sides(const std::string& folder, const Case& sizes, Data data)
      : sizes_(sizes),
        data_(data),
        model_(bench::load(folder, Task::kFile)),
        pool_(canter::make_pool(Task::kName, {.num_envs = sizes.num_envs,
                                              .seed = kSeed,
                                              .num_threads = 1,
                                              .max_episode_steps = sizes.max_steps,
                                              .model_path = folder + "/" + Task::kFile})),
        buffers_(sizes.num_envs, pool_->spec()),
        plain_(model_, sizes.num_envs, kSeed, sizes.max_steps, data),
        actions_(bench::random_actions(kNumActions, sizes.num_envs, int(model_->nu),
                                       Task::kActionBound)) {
    pool_->reset(buffers_.view());
    if (sizes.stagger) stagger();
  }
  ~Sides() { mj_deleteModel(model_); }

  void step_pool() {
    for (int t = 0; t < sizes_.num_steps; ++t) step_pool_once();
  }
  void step_plain() {
    if (data_ == Data::one_for_all) {
      for (int t = 0; t < sizes_.num_steps;) {
        // stretches of actions that lie in one piece
        const int start = plain_steps_ % kNumActions;
        const int count = std::min(sizes_.num_steps - t, kNumActions - start);
        plain_.run(actions_at(start), count);
        plain_steps_ += count;
        t += count;
      }
      return;
    }
    for (int t = 0; t < sizes_.num_steps; ++t)
      plain_.step(actions_at(plain_steps_++ % kNumActions));
  }

  void compare() {
    const auto same = [](const auto& a, const auto& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
    };
    for (int i = 0; i < sizes_.num_envs; ++i) {
      bench::require(same(pool_->state(i).integration_state, plain_.state(std::size_t(i), data_)),
                     std::string(Task::kName) + ", state of environment " + std::to_string(i));
    }
    bench::require(same(buffers_.observations, plain_.observations), "observations");
    bench::require(same(buffers_.final_observations, plain_.final_observations), "final ones");
    bench::require(same(buffers_.terminated, plain_.terminated), "terminated");
    bench::require(same(buffers_.truncated, plain_.truncated), "truncated");
    bench::require(same(buffers_.episode_lengths, plain_.lengths), "episode lengths");
    for (std::size_t i = 0; i < plain_.rewards.size(); ++i) {
      bench::require(std::abs(buffers_.rewards[i] - plain_.rewards[i]) < 1e-5f, "rewards");
    }
  }

 private:
  static constexpr int kNumActions = 16;
  static constexpr std::uint64_t kSeed = 7;

  const float* actions_at(int step) const {
    return &actions_[std::size_t(step) * actions_.size() / kNumActions];
  }
  void step_pool_once() {
    const std::size_t size = actions_.size() / kNumActions;
    canter::StepView view = buffers_.view();
    view.metrics = {};  // the loops have none
    pool_->step({actions_at(pool_steps_++ % kNumActions), size}, view);
  }

  // spreads the ends of episodes evenly over the steps
  void stagger() {
    std::vector<std::uint8_t> mask(std::size_t(sizes_.num_envs));
    for (int t = 0; t < sizes_.max_steps - 1; ++t) {
      step_pool_once();
      const float* actions = actions_at(plain_steps_++ % kNumActions);
      if (data_ == Data::one_for_all) {
        plain_.run(actions, 1);
      } else {
        plain_.step(actions);
      }
      for (int i = 0; i < sizes_.num_envs; ++i) mask[std::size_t(i)] = i % sizes_.max_steps == t;
      pool_->reset(mask, buffers_.view());
      for (std::size_t i = 0; i < mask.size(); ++i) {
        if (mask[i]) plain_.restart(i);
      }
    }
  }

  Case sizes_;
  Data data_;
  mjModel* model_;
  std::shared_ptr<canter::EnvPool> pool_;
  canter::StepBuffers buffers_;
  PlainLoop<Task> plain_;
  std::vector<float> actions_;
  int pool_steps_ = 0, plain_steps_ = 0;
};

template <class Task>
void compare(const std::string& folder, const Case& sizes, Data data) {
  Sides<Task> sides(folder, sizes, data);
  const bench::Pair pair = bench::alternate(
      sizes.num_pairs, bench::cpu_seconds, [&] { sides.step_pool(); }, [&] { sides.step_plain(); });
  sides.compare();
  const bool usual = data == Data::one_per_env;
  const double steps = double(sizes.num_envs) * sizes.num_steps;
  bench::report(std::string(usual ? "pool / usual C loop, " : "pool / ideal C loop, ") +
                    std::to_string(sizes.num_envs) + " x " + Task::kName,
                pair.ratio, "x");
  std::fprintf(stderr, "%s %d: pool %.2f us, loop %.2f us\n", Task::kName, sizes.num_envs,
               1e6 * pair.ours / steps, 1e6 * pair.theirs / steps);
}

template <class Task>
void usual(const std::string& folder, const Case& sizes) {
  compare<Task>(folder, sizes, Data::one_per_env);
}
template <class Task>
void ideal(const std::string& folder, const Case& sizes) {
  compare<Task>(folder, sizes, Data::one_for_all);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: canter_bench_pool MODEL_FOLDER\n", stderr), 2;
  const std::string folder = argv[1];
  usual<bench::HalfCheetah>(folder, {1024, 9, 8, 40, true});
  usual<bench::InvertedPendulum>(folder, {1024, 9, 8, 1000, false});
  usual<bench::Ant>(folder, {1024, 5, 2, 1000, false});
  ideal<bench::Ant>(folder, {64, 9, 20, 1000, false});
  ideal<bench::HalfCheetah>(folder, {64, 15, 80, 40, true});
  ideal<bench::InvertedPendulum>(folder, {64, 15, 120, 1000, false});
}
