#pragma once
// Shard: a contiguous range of a pool's environments that one thread steps at a time. A new kind of
// simulator enters canter by one class derived from Shard; environments and MuJoCo tasks have
// theirs already (environment.hpp, mujoco/task.hpp).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "canter/base/rng.hpp"
#include "canter/base/spec.hpp"
#include "canter/base/state.hpp"

namespace canter {

/// The rows of one shard inside the caller's buffers; row j is environment `first + j` of the pool.
struct ShardRows {
  std::span<const float> actions{};      ///< float[size, action_size]; empty in resets
  std::span<Rng> rngs{};                 ///< the environments' own streams [size]
  std::span<float> observations{};       ///< float[size, observation_size]
  std::span<float> rewards{};            ///< float[size]
  std::span<std::uint8_t> terminated{};  ///< 0/1 [size]
  std::span<std::uint8_t> diverged{};    ///< 0/1 [size]
  std::span<float> metrics{};            ///< float[size, num_metrics], or empty: not wanted
};

/// What went wrong in one environment of a shard.
struct Fault {
  int row = 0;  ///< row in the shard
  std::string message;
};
using Faults = std::vector<Fault>;

/// An array that a shard saves: one row of `size` numbers per environment.
struct StateField {
  std::string name;  ///< below "env/"
  Dtype dtype = Dtype::u8;
  std::int64_t size = 1;  ///< numbers per environment
};

/// Continuous state of one environment in double precision.
struct EnvState {
  std::vector<double> qpos, qvel;         ///< MuJoCo tasks
  double time = 0;                        ///< [s]
  std::vector<double> integration_state;  ///< mjSTATE_INTEGRATION row; empty for other simulators
};

/// Warnings of a simulator, counted.
using WarningCounts = std::vector<std::pair<std::string, std::int64_t>>;

/// A range of environments. The pool calls one method at a time; distinct shards run in distinct
/// threads. An environment that fails is reported in `faults` and the others go on: methods throw
/// only when the shard as a whole cannot work.
class Shard {
 public:
  virtual ~Shard() = default;

  /// One step of every row: observations, rewards, terminated and metrics are written. Rows with
  /// diverged != 0 on entry (a non-finite action) are left alone; a row whose simulation blows up
  /// sets diverged, and its other numbers do not matter.
  virtual void step(const ShardRows& rows, Faults& faults) = 0;

  /// Starts an episode in the given rows (ascending): writes their observations.
  virtual void reset(std::span<const int> ids, const ShardRows& rows, Faults& faults) = 0;

  /// State of a row. @throws InvalidArgument for simulators without qpos and qvel.
  virtual EnvState state(int row) const;
  /// Starts an episode of a row from a given state; sizes are those of state().
  virtual void reset_to(int row, std::span<const double> qpos, std::span<const double> qvel,
                        const ShardRows& rows, Faults& faults);

  /// Why the shard cannot be saved, or "".
  virtual std::string refuses_save() const = 0;
  /// The arrays of save and load; the same for all shards of a pool.
  virtual std::vector<StateField> state_fields() const = 0;
  /// Copies state out of / into the shard's rows of every field, in the order of state_fields.
  virtual void save(std::span<const std::span<std::byte>> fields) const = 0;
  virtual void load(std::span<const std::span<const std::byte>> fields) = 0;

  /// A hash of the simulated model, the same in every process; "" for simulators without one.
  virtual std::string model_hash() const { return ""; }

  /// Adds the shard's warnings since it was made to `counts`.
  virtual void count_warnings(WarningCounts& counts) const;
};

/// Makes the shard of environments [first, first + count) of a pool.
using ShardFactory = std::function<std::unique_ptr<Shard>(int first, int count)>;

}  // namespace canter
