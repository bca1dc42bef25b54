#pragma once
// EnvPool: many environments stepped together by a few threads. It owns time: time limits, resets,
// seeds, episode statistics and divergence are its business; what the numbers mean is the task's.
// The same seed gives the same bits for any number of threads and shards.
//
//   auto pool = canter::make_pool("HalfCheetah-v5", {.num_envs = 64, .seed = 7});
//   canter::StepBuffers buffers(pool->num_envs(), pool->spec());
//   pool->reset(buffers.view());
//   pool->step(actions, buffers.view());

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "canter/base/spec.hpp"
#include "canter/base/state.hpp"
#include "canter/base/threads.hpp"
#include "canter/env/shard.hpp"
#include "canter/env/step.hpp"

namespace canter {

/// What happens when an episode ends (Gymnasium's AutoresetMode).
enum class AutoresetMode { same_step };
constexpr std::array<std::string_view, 1> enum_names(AutoresetMode) { return {"same_step"}; }

/// Options of a pool.
struct PoolOptions {
  int num_envs = 1;              ///< environments in this pool. Default: 1
  std::uint64_t seed = 0;        ///< key of every random stream. Default: 0
  std::vector<std::uint64_t> seeds{};  ///< environment i draws from seeds[i] alone; empty: from `seed` and its global id
  std::int64_t env_offset = 0;   ///< global id of environment 0 (rank * num_envs on many ranks). Default: 0
  int num_threads = 0;           ///< 0: the cores this process may use. Default: 0
  int num_shards = 0;            ///< 0: about two per thread. Never changes the results. Default: 0
  int max_episode_steps = -1;    ///< time limit [steps]; -1: the spec's; 0: none. Default: -1
  bool persistent = false;       ///< MuJoCo: one mjData per environment instead of one per shard. Default: false
  std::string model_path{};      ///< model file for tasks of the registry; empty: searched for. Default: ""
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
  std::vector<std::pair<std::string, std::int64_t>> warnings;  ///< MuJoCo's warning texts and their counts
};

/// Continuous state of one environment in double precision.
struct EnvState {
  std::vector<double> qpos, qvel;                 ///< MuJoCo tasks
  double time = 0;                                ///< [s]
  std::vector<double> integration_state;          ///< mjSTATE_INTEGRATION row; empty for other simulators
};

/// Many environments of one task. Not copyable. One call at a time: a second thread's call while
/// one is running throws Error at once. After an EnvError the pool refuses until reset().
class EnvPool {
 public:
  /// Builds a pool over shards that cover [0, num_envs) in order; usually called by make_pool.
  EnvPool(Spec spec, PoolOptions options, std::shared_ptr<Threads> threads, ShardFactory factory);
  ~EnvPool();
  EnvPool(const EnvPool&) = delete;
  EnvPool& operator=(const EnvPool&) = delete;

  const Spec& spec() const noexcept;
  const PoolOptions& options() const noexcept;   ///< with every "automatic" resolved
  const std::string& name() const noexcept;      ///< registry name, or the task's type name
  int num_envs() const noexcept;
  const std::shared_ptr<Threads>& threads() const noexcept;

  /// Starts a new episode in every environment. Writes observations; zeroes rewards and flags.
  void reset(const StepView& out);
  /// The same under another seed, from episode 0: reproduces a new pool with that seed.
  void reset(std::uint64_t seed, const StepView& out);
  /// Starts new episodes where mask[i] != 0; the other rows are left alone.
  void reset(std::span<const std::uint8_t> mask, const StepView& out);

  /// One step of every environment. actions: float[num_envs, action_size].
  /// Episodes that end are reset in the same step (see StepView).
  /// @throws InvalidArgument for wrong sizes, a discrete action out of range, or before the first reset.
  /// @throws EnvError when a hook threw or MuJoCo raised a fatal error, after all shards finished.
  void step(std::span<const float> actions, const StepView& out);

  /// Observations of the latest step, reset or load: float[num_envs, observation_size].
  std::span<const float> observations() const noexcept;

  /// State of environment i. @throws InvalidArgument for simulators without one, or a bad index.
  EnvState state(int i) const;
  /// Starts a new episode of environment i from a given state (resetData, set, forward,
  /// after_reset, observe). observation: float[observation_size], written.
  void reset_to(int i, std::span<const double> qpos, std::span<const double> qvel,
                std::span<float> observation);

  /// Why the pool cannot be saved (a task with data but no `state`, sleep, IPC), or "".
  std::string refuses_save() const;
  /// Everything that the next step depends on, below "env/". @throws InvalidArgument if refuses_save().
  void save(StateDict& state) const;
  void validate(const StateDict& state) const;
  void load(const StateDict& state);

  PoolStatistics statistics() const;

  /// Marks the pool as held: until released, step/reset/load from anyone without the key throw.
  /// The trainer holds its pool this way. @throws Error if it is held already.
  class Hold;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace canter
