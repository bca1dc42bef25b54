#pragma once
// The inside of EnvPool: its memory, and what happens to the rows of one shard in a step.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "canter/env/pool.hpp"

namespace canter {

/// @throws InvalidArgument unless `got` is num_envs x width.
void check_size(const char* what, std::size_t got, std::size_t num_envs, std::size_t width);

struct EnvPool::Impl {
  // a shard with what its thread writes; on cache lines of its own
  struct alignas(64) Slice {
    std::unique_ptr<Shard> shard;
    int first = 0, count = 0;
    std::vector<int> ids;  // rows to reset
    Faults faults;
    std::int64_t episodes = 0, terminated = 0, truncated = 0, diverged = 0;
  };

  // one call at a time: the second one is refused, not queued
  class Call {
   public:
    explicit Call(const Impl& pool);
    ~Call() { busy_.store(false, std::memory_order_release); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    std::atomic<bool>& busy_;
  };

  Impl(std::string name, Spec spec, PoolOptions options, std::shared_ptr<Threads> threads,
       const ShardFactory& factory);

  // pool_impl.cpp: checks at the boundary
  void check_free() const;
  void check_sound() const;
  void check_view(const StepView& out) const;
  void check_actions(std::span<const float> actions) const;
  int check_index(int i) const;

  // pool_impl.cpp: the calls, without asking who calls
  void reset_all(const StepView& out);
  void reset_seeded(std::uint64_t seed, const StepView& out);
  void reset_masked(std::span<const std::uint8_t> mask, const StepView& out);
  void step_all(std::span<const float> actions, const StepView& out);

  // pool_state.cpp
  std::vector<StateField> shard_fields() const;
  void save(StateDict& state) const;
  void validate(const StateDict& state) const;
  void load(const StateDict& state);

  // pool_rows.cpp: the rows of one shard
  void step_rows(Slice& slice, std::span<const float> actions, const StepView& out);
  void finish_rows(Slice& slice, const ShardRows& rows, const StepView& out);
  void reset_rows(Slice& slice, const ShardRows& rows);
  void restart_row(Slice& slice, int row, std::span<const double> qpos,
                   std::span<const double> qvel);
  void finish_reset(Slice& slice, std::size_t num_faults, int row, const ShardRows& rows);
  void begin_episode(std::size_t i);
  ShardRows rows_of(const Slice& slice, const StepView& out);
  std::span<float> last_observation(std::size_t i);
  void throw_faults();

  Slice& slice_of(int i);
  void seed_all();

  std::string name, holder;
  bool held = false;
  Spec spec;
  PoolOptions options;
  std::shared_ptr<Threads> threads;
  std::vector<Slice> slices;
  std::size_t observation_size = 0, action_size = 0, num_metrics = 0;
  std::int64_t num_steps = 0;  // pool steps
  int num_started = 0;         // environments that have had a reset
  bool faulted = false;        // an earlier call left rows half done
  mutable std::atomic<bool> busy{false};

  // one entry or row per environment
  std::vector<Rng> rngs;
  std::vector<double> returns;      // of the running episode
  std::vector<std::int32_t> steps;  // of the running episode
  std::vector<float> observations;  // the latest, float[num_envs, observation_size]
  std::vector<std::uint8_t> diverged;
  std::vector<std::uint8_t> started;                  // 0/1
  mutable std::vector<std::vector<std::byte>> saved;  // what save() gathered from the shards
};

}  // namespace canter
