#pragma once
// Trainer: walks the circle once per iterate(): rollout, advantages, update, normalisers, report;
// saves and resumes. Composes pool, policy, learner, communicator and checkpoints; owns no
// mathematics.
//
//   canter::Trainer trainer(pool, policy, canter::Communicator::single(),
//                           {.directory = "runs/ant"});
//   trainer.resume();  // newest valid checkpoint, or none
//   while (trainer.env_steps() < 1'000'000) std::cout << trainer.iterate() << '\n';
//   trainer.save();

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "canter/checkpoint/store.hpp"
#include "canter/env/pool.hpp"
#include "canter/ppo/ppo.hpp"
#include "canter/report.hpp"
#include "canter/sync/communicator.hpp"

namespace canter {

/// Options of a trainer.
struct TrainerOptions {
  PpoOptions ppo{};
  /// environment steps of the whole run; 0: no end, constant schedules
  std::int64_t total_steps = 0;
  std::uint64_t seed = 0;   ///< of action sampling and minibatch order
  std::string directory{};  ///< run directory; empty: nothing is written
  /// between checkpoints [s]; 0: every iteration; < 0: only save()
  double save_interval_seconds = 60;
  CheckpointOptions checkpoint{};
};

template <class Visitor>
void visit(TrainerOptions& o, Visitor&& v) {
  visit(o.ppo, v);
  v("total_steps", o.total_steps);
  v("seed", o.seed);
  v("directory", o.directory);
  v("save_interval_seconds", o.save_interval_seconds);
  visit(o.checkpoint, v);
}

/// Trains one policy on one pool. One thread at a time, except request_stop(). On many ranks every
/// rank calls the same functions in the same order, and rank 0 alone writes files.
///
/// The run directory holds config.toml, metrics.jsonl, policy.safetensors and checkpoints/; a run
/// that was saved continues bit for bit in any later process of the same build.
class Trainer {
 public:
  /// Takes the pool for itself and resets it to its first episodes: until the trainer is gone,
  /// others' step() and reset() throw. The policy runs on the pool's threads from now on, and on
  /// many ranks starts as that of rank 0. `preset`: a name to note in config.toml.
  /// @throws InvalidArgument when pool and policy do not fit each other, an option is out of range,
  /// or the pool refuses to be saved; Error when the pool is held by another trainer.
  Trainer(const std::shared_ptr<EnvPool>& pool, const std::shared_ptr<Policy>& policy,
          const std::shared_ptr<Communicator>& communicator, TrainerOptions options,
          std::string preset = {});
  /// Waits for a save in flight.
  ~Trainer();

  /// One rollout, update and report; starts a save in the background when the interval is over. A
  /// save that fails costs that save: Report::warning says why, training goes on.
  /// After an exception it refuses until resume(); the last saved boundary is untouched.
  /// @throws Error when the directory holds a run that was not resumed.
  Report iterate();
  /// iterate() until env_steps() >= total_steps, a stop is requested, max_seconds are over (<= 0:
  /// no limit) or the callback returns false; then saves (with a directory). An exception of the
  /// callback is passed on after saving. A stop, once requested, holds until clear_stop().
  /// @returns true when total_steps are reached.
  bool train(const std::function<bool(const Report&)>& callback = {}, double max_seconds = 0);

  /// Commits a checkpoint of the last iteration boundary, writes policy.safetensors, and waits
  /// until both are durable. @throws InvalidArgument without a directory; CheckpointError.
  void save();
  /// Loads the newest valid checkpoint of the directory. @returns false when there is none.
  /// total_steps, threads, directory, model path and how often to save may differ from the saved
  /// run's; the schedules then follow the new total_steps.
  /// @throws InvalidArgument naming another option that differs; CheckpointError when all are
  /// damaged or one does not fit. Nothing changed then.
  bool resume();

  /// Ends train() at the next iteration boundary. Safe from any thread and from signal handlers.
  void request_stop() noexcept;
  void clear_stop() noexcept;
  bool stop_requested() const noexcept;

  std::int64_t env_steps() const noexcept;  ///< of the run, all ranks
  std::int64_t iteration() const noexcept;
  const TrainerOptions& options() const noexcept;
  EnvPool& pool() noexcept;
  Policy& policy() noexcept;
  Communicator& communicator() noexcept;
  /// Its checkpoints, for their times and sizes; null without a directory and on ranks other than
  /// 0.
  const CheckpointStore* checkpoints() const noexcept;
  /// XXH3-128 of the whole state without times, as hexadecimal text: equal runs have equal digests.
  std::string digest() const;
  /// Bytes of the state that a checkpoint holds.
  std::size_t state_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace canter
