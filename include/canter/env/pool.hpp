#pragma once
// EnvPool: many environments stepped together by a few threads. It owns time: time limits, resets,
// seeds, episode statistics and divergence are its business; what the numbers mean is the task's.
// The same seed gives the same bits for any number of threads and shards.
//
//   auto pool = canter::make_pool("HalfCheetah-v5", {.num_envs = 64, .seed = 7});
//   canter::StepBuffers buffers(pool->num_envs(), pool->spec());
//   pool->reset(buffers.view());
//   pool->step(actions, buffers.view());

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "canter/base/spec.hpp"
#include "canter/base/state.hpp"
#include "canter/base/threads.hpp"
#include "canter/env/shard.hpp"
#include "canter/env/step.hpp"

namespace canter {

/// Options of a pool.
struct PoolOptions {
  int num_envs = 1;        ///< environments in this pool. Default: 1
  std::uint64_t seed = 0;  ///< key of every random stream. Default: 0
  /// environment i draws from seeds[i] alone; empty: from `seed` and its global id. Default: empty
  std::vector<std::uint64_t> seeds{};
  /// global id of environment 0: rank * num_envs on many ranks. Default: 0
  std::int64_t env_offset = 0;
  int num_threads = 0;         ///< 0: the cores this process may use. Default: 0
  int num_shards = 0;          ///< 0: about two per thread. Never changes the results. Default: 0
  int max_episode_steps = -1;  ///< time limit [steps]; -1: the spec's; 0: none. Default: -1
  /// MuJoCo: one mjData per environment instead of one per shard. Default: false
  bool persistent = false;
  /// model file for tasks of the registry; empty: searched for. Default: ""
  std::string model_path{};
};

template <class Visitor>
void visit(PoolOptions& o, Visitor&& v) {
  v("num_envs", o.num_envs);
  v("seed", o.seed);
  v("seeds", o.seeds);
  v("env_offset", o.env_offset);
  v("num_threads", o.num_threads);
  v("num_shards", o.num_shards);
  v("max_episode_steps", o.max_episode_steps);
  v("persistent", o.persistent);
  v("model_path", o.model_path);
}

/// Totals since the pool was made. Counting costs nothing measurable.
struct PoolStatistics {
  std::int64_t env_steps = 0;
  std::int64_t episodes = 0;
  std::int64_t terminated = 0;
  std::int64_t truncated = 0;
  std::int64_t diverged = 0;
  int num_threads = 0;
  int num_shards = 0;
  WarningCounts warnings;  ///< texts of the simulator's warnings that fired, and how often
};

/// Many environments of one task. Not copyable. One call at a time: a second thread's call while
/// one is running throws Error at once. After an EnvError the pool refuses until it is reset or
/// loaded as a whole.
class EnvPool {
 public:
  class Hold;

  /// Builds a pool over shards that cover [0, num_envs) in order; usually called by make_pool.
  /// Without `threads` the pool makes its own. @throws InvalidArgument for bad options.
  EnvPool(std::string name, Spec spec, PoolOptions options, std::shared_ptr<Threads> threads,
          const ShardFactory& factory);
  ~EnvPool();
  EnvPool(const EnvPool&) = delete;
  EnvPool& operator=(const EnvPool&) = delete;

  const Spec& spec() const noexcept;
  const PoolOptions& options() const noexcept;  ///< with every "automatic" resolved
  const std::string& name() const noexcept;     ///< registry name, or the task's type name
  void set_name(std::string name);
  int num_envs() const noexcept;
  const std::shared_ptr<Threads>& threads() const noexcept;

  /// Starts a new episode in every environment. Writes observations; zeroes rewards, flags and
  /// metrics.
  void reset(const StepView& out);
  /// The same under another seed, from episode 0: reproduces a new pool with that seed.
  void reset(std::uint64_t seed, const StepView& out);
  /// The same with one seed per environment: environment i then depends on seeds[i] alone.
  void reset(std::span<const std::uint64_t> seeds, const StepView& out);
  /// Starts new episodes where mask[i] != 0; the other rows are left alone.
  void reset(std::span<const std::uint8_t> mask, const StepView& out);

  /// One step of every environment. actions: float[num_envs, action_size].
  /// Episodes that end are reset in the same step (see StepView). An environment whose physics,
  /// reward or observation is not finite any more, or whose action is not finite, ends its episode:
  /// terminated and diverged, reward 0, final observation = its last finite one.
  /// @throws InvalidArgument for wrong sizes, a discrete action out of range, or before the first
  /// reset.
  /// @throws EnvError when a hook threw or MuJoCo raised a fatal error, after all shards finished:
  /// every other row is as if nothing had happened, its own row repeats the last observation.
  void step(std::span<const float> actions, const StepView& out);

  /// Observations of the latest step, reset or load: float[num_envs, observation_size], the pool's
  /// own memory. Valid until the next call that changes the pool.
  std::span<const float> observations() const noexcept;

  /// State of environment i. @throws InvalidArgument for simulators without one, or a bad index.
  EnvState state(int i) const;
  /// Starts a new episode of environment i from a given state (resetData, set, forward,
  /// after_reset, observe). observation: float[observation_size], written.
  /// @throws InvalidArgument for wrong sizes or non-finite numbers.
  void reset_to(int i, std::span<const double> qpos, std::span<const double> qvel,
                std::span<float> observation);

  /// A hash of the simulated model, the same in every process; "" for simulators without one. State
  /// saved under one model means nothing under another.
  std::string model_hash() const;
  /// Why the pool cannot be saved (a task with data but no `state`, sleep, IPC), or "".
  std::string refuses_save() const;
  /// Everything that the next step depends on, below "env/", one row per environment: rng (words of
  /// Rng::state; the fourth is the episode), steps, returns, observations, and what the shards add
  /// (mujoco/state, mujoco/warnings, task/<field>). The next steps after load have the same bits
  /// with any number of threads and shards.
  /// @throws InvalidArgument if refuses_save(), before the first reset, or after an EnvError.
  void save(StateDict& state) const;
  void validate(const StateDict& state) const;
  void load(const StateDict& state);

  PoolStatistics statistics() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// While one lives, the pool obeys its holder alone: step, reset, reset_to and load of the pool
/// itself throw Error, the holder's own calls go through. The trainer holds its pool this way.
/// The pool must outlive it.
class EnvPool::Hold {
 public:
  /// `holder` names who holds it in the error that others get. @throws Error if it is held already.
  explicit Hold(EnvPool& pool, std::string holder = "a trainer");
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  void reset(const StepView& out);
  void reset(std::uint64_t seed, const StepView& out);
  void step(std::span<const float> actions, const StepView& out);
  void load(const StateDict& state);

 private:
  EnvPool& pool_;
};

}  // namespace canter
