#pragma once
// Trainer: walks the circle once per iterate(): rollout, advantages, update, normalisers, report;
// saves and resumes. Composes pool, policy, learner, communicator and checkpoints; owns no mathematics.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>

#include "canter/checkpoint/store.hpp"
#include "canter/env/pool.hpp"
#include "canter/ppo/ppo.hpp"
#include "canter/sync/communicator.hpp"

namespace canter {

/// Options of a trainer.
struct TrainerOptions {
  PpoOptions ppo{};
  std::int64_t total_steps = 0;      ///< environment steps of the whole run; 0: no end, constant schedules
  std::uint64_t seed = 0;            ///< of action sampling and minibatch order
  std::string directory{};           ///< run directory; empty: nothing is written
  double save_interval_seconds = 60; ///< between checkpoints [s]; 0: every iteration; < 0: only save()
  CheckpointOptions checkpoint{};
};

/// What one iteration did; keys and order are those of metrics.jsonl.
struct Report {
  std::int64_t iteration = 0, env_steps = 0, episodes = 0;
  double episode_return_mean = 0, episode_return_std = 0, episode_length_mean = 0;  ///< last 100 episodes; NaN before the first
  double steps_per_second = 0;
  double policy_loss = 0, value_loss = 0, entropy = 0, approx_kl = 0, clip_fraction = 0;
  double explained_variance = 0, gradient_norm = 0, learning_rate = 0;
  double std = 0;                    ///< mean standard deviation of the action distribution; 0 if discrete
  std::int64_t diverged = 0, skipped_updates = 0;   ///< totals of the run
  double time_physics = 0, time_inference = 0, time_update = 0, time_other = 0;  ///< [s] of this iteration
  double seconds = 0;                ///< of the whole run, over all its processes
};

/// One line for people.
std::ostream& operator<<(std::ostream& out, const Report& report);
/// One JSON object with the keys of DESIGN section 8.
std::string to_json(const Report& report);

/// Trains one policy on one pool. One thread at a time, except request_stop().
class Trainer {
 public:
  /// Takes the pool for itself: until the trainer is gone, others' step() and reset() throw.
  /// @throws InvalidArgument when spec and policy differ, or the pool refuses to be saved.
  Trainer(std::shared_ptr<EnvPool> pool, std::shared_ptr<Policy> policy,
          std::shared_ptr<Communicator> communicator, TrainerOptions options);
  ~Trainer();

  /// One rollout, update and report; saves when the interval is over.
  /// After an exception it refuses until resume(); the last saved boundary is untouched.
  Report iterate();
  /// iterate() until env_steps() >= total_steps, a stop is requested, max_seconds are over (<= 0: no
  /// limit) or the callback returns false; then saves. @returns true when total_steps are reached.
  bool train(const std::function<bool(const Report&)>& callback = {}, double max_seconds = 0);

  /// Commits a checkpoint of the last iteration boundary and waits until it is durable.
  void save();
  /// Loads the newest valid checkpoint of the directory. @returns false when there is none.
  /// @throws CheckpointError when all are damaged or one does not fit; nothing changed then.
  bool resume();

  /// Ends train() at the next iteration boundary. Safe from any thread and from signal handlers.
  void request_stop() noexcept;
  bool stop_requested() const noexcept;

  std::int64_t env_steps() const noexcept;
  std::int64_t iteration() const noexcept;
  const TrainerOptions& options() const noexcept;
  EnvPool& pool() noexcept;
  Policy& policy() noexcept;
  /// XXH3-128 of the whole state without times, as hexadecimal text: equal runs have equal digests.
  std::string digest() const;
  /// Bytes of the state that a checkpoint holds.
  std::size_t state_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace canter
