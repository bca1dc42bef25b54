#pragma once
// CheckpointStore: a directory of checkpoints of which the newest valid one can always be loaded.
//
//   step-000000001234/shard-00000-of-00001.safetensors   every array of the state
//   step-000000001234/MANIFEST.json                      lists the files with sizes and checksums
//   .tmp-*  unfinished   .bad-*  found damaged and set aside   .lock  held while somebody writes
//
// A checkpoint exists from the moment its manifest is renamed into place, after everything it lists
// is on the disk; whoever is killed at any instant leaves the previous ones as they were.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "canter/base/state.hpp"
#include "canter/checkpoint/safetensors.hpp"

namespace canter {

/// Options of a store.
struct CheckpointOptions {
  int keep_last = 3;  ///< checkpoints kept, at least 1. Default: 3
  /// write in a background thread after a snapshot in memory. Default: true
  bool background = true;
};

template <class Visitor>
void visit(CheckpointOptions& o, Visitor&& v) {
  v("keep_last", o.keep_last);
  v("background", o.background);
}

/// What a manifest says about a checkpoint besides its files.
struct CheckpointInfo {
  int world_size = 1;  ///< ranks of the run
  std::int64_t env_first = 0,
               env_count = 0;  ///< global environments whose rows the arrays "env/..." hold
  std::map<std::string, int>
      components{};       ///< name -> version of its arrays; a reader needs all of them
  Metadata provenance{};  ///< versions, hashes, configuration
  std::map<std::string, double> metrics{};  ///< of the last iteration
};

/// A checkpoint read and verified.
struct Checkpoint {
  std::int64_t step = 0;
  StateDict state;  ///< views of `memory`
  CheckpointInfo info;
  std::vector<std::string>
      rejected;  ///< "step-...: reason" of newer candidates that were set aside
  std::shared_ptr<const void> memory;
};

/// Saves and loads checkpoints below one directory. Methods from one thread at a time.
class CheckpointStore {
 public:
  /// Makes the directory if needed and removes what a killed process left unfinished.
  /// @throws CheckpointError when it cannot be made; InvalidArgument if keep_last < 1.
  explicit CheckpointStore(const std::filesystem::path& directory, CheckpointOptions options = {});
  /// Waits for a save in flight.
  ~CheckpointStore();
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  /// Copies the state (the only stall) and commits it in the background; waits for the save before
  /// it first. Saving a step again replaces it at the commit.
  /// @throws CheckpointError of this or, when background, of the save before it: that error does
  /// not keep this save from being made. `after_commit` runs once the checkpoint is durable, in the
  /// thread that wrote it; what it throws is an error of this save.
  void save(std::int64_t step, const StateDict& state, const CheckpointInfo& info,
            std::function<void()> after_commit = {});
  /// Blocks until the latest save is durable. @throws CheckpointError if it failed.
  void wait();
  /// Does not block. @throws CheckpointError if a save has failed since the last call that told.
  void check();

  /// The newest checkpoint that verifies; damaged ones are renamed .bad-* and the one before is
  /// tried. Empty when there never was one. Waits for a save in flight.
  /// @throws CheckpointError when there are candidates but none is valid, or when the newest was
  /// written by a later version of the format.
  std::optional<Checkpoint> load_newest();

  /// Steps of committed checkpoints, ascending.
  std::vector<std::int64_t> steps() const;
  /// Seconds the latest save() stalled its caller, seconds from its start until it was durable, and
  /// bytes of its state.
  double last_stall_seconds() const noexcept;
  double last_durable_seconds() const noexcept;
  std::size_t last_num_bytes() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace canter
