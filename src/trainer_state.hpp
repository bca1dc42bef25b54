#pragma once
// What a trainer itself has to remember: counters, the last report, and its clock. The clock stands
// apart, because equal runs have equal counters and never equal times.

#include <cstdint>
#include <vector>

#include "canter/base/state.hpp"
#include "canter/report.hpp"

namespace canter::detail {

/// Array that holds the clock; digests leave it out.
inline constexpr const char* kClockName = "cereal/trainer_clock";

/// Counters of a run, and the clock.
struct TrainerState {
  Report report{};     ///< of the last iteration; iteration, env_steps, ... are the counters
  double seconds = 0;  ///< of training, over all processes [s]
  std::uint64_t metrics_size = 0;  ///< bytes of metrics.jsonl at this boundary

  /// Appends "cereal/trainer" and the clock: cereal's portable binary, a version first.
  void save(StateDict& state) const;
  /// Reads both. @throws CheckpointError naming the array, for a later version too.
  static TrainerState read(const StateDict& state);
};

}  // namespace canter::detail
