#pragma once
// The inside of Trainer: trainer.cpp walks the circle, trainer_checkpoint.cpp saves and resumes.

#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <vector>

#include "canter/run.hpp"
#include "canter/trainer.hpp"
#include "checkpoint/safetensors_image.hpp"
#include "episode_window.hpp"
#include "metrics_file.hpp"
#include "trainer_state.hpp"

namespace canter {

struct Trainer::Impl {
  using Clock = std::chrono::steady_clock;

  Impl(const std::shared_ptr<EnvPool>& its_pool, const std::shared_ptr<Policy>& its_policy,
       const std::shared_ptr<Communicator>& its_communicator, TrainerOptions its_options,
       std::string its_preset);

  // parts
  const std::shared_ptr<EnvPool> pool;
  const std::shared_ptr<Policy> policy;
  const std::shared_ptr<Communicator> communicator;
  TrainerOptions options;
  const std::string preset;
  const std::filesystem::path directory;  // absolute; empty without one
  std::unique_ptr<EnvPool::Hold> hold;
  Rollout rollout;
  Ppo ppo;
  std::unique_ptr<CheckpointStore> store;  // rank 0 of a run with a directory
  detail::MetricsFile metrics;
  CheckpointInfo info;  // of the next save
  // policy.safetensors in memory; written says that the thread that writes it is done with it
  struct PolicyImage {
    detail::SafetensorsImage image;
    std::atomic<bool> written{false};
  };
  std::shared_ptr<PolicyImage> policy_image;
  Metadata policy_metadata;

  // one step's memory that is not part of the rollout
  std::vector<std::uint8_t> diverged;         // 0/1 [num_envs]
  std::vector<float> episode_returns;         // float[num_envs]
  std::vector<std::int32_t> episode_lengths;  // [num_envs]

  // state of the run; equal on all ranks
  detail::TrainerState state;
  detail::EpisodeWindow window;

  // this rank's part of the iteration under way
  detail::EpisodeWindow fresh;
  std::int64_t fresh_diverged = 0;
  double physics_seconds = 0, inference_seconds = 0, update_seconds = 0;
  std::vector<double> exchange, exchanged;  // what ranks tell each other once per iteration

  std::size_t log_std_offset = 0, log_std_size = 0;
  bool begun = false, resumed = false, failed = false;
  std::int64_t saved_iteration = -1;
  Clock::time_point last_save = Clock::now();
  std::string warning;  // for the next report
  std::atomic<bool> stop{false};

  bool is_root() const { return communicator->rank() == 0; }
  bool has_directory() const { return !directory.empty(); }

  // trainer.cpp
  void begin();
  void collect();
  void step(int t);
  void count_episodes(int t);
  void exchange_episodes();
  void fill_report(const UpdateReport& update, double total_seconds);
  double mean_std() const;
  bool agree(bool vote);

  // trainer_checkpoint.cpp
  RunOptions described() const;
  StateDict state_without_pool() const;
  StateDict local_state() const;
  void describe(const StateDict& global);
  std::function<void()> policy_writer();
  void start_save();
  void save_in_time();
  void save_now();
  void finish_save(std::string reason);
  std::optional<Checkpoint> load_checkpoint();
  void check_fits(const Checkpoint& checkpoint, const StateDict& local) const;
  void compare_builds(const CheckpointInfo& saved);
  bool resume();
};

}  // namespace canter
