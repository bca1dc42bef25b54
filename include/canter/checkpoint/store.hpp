#pragma once
// CheckpointStore: a directory of checkpoints of which the newest valid one can always be loaded.
// Layout, commit order and guarantees: see docs in store.cpp and the README.

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "canter/base/state.hpp"
#include "canter/checkpoint/safetensors.hpp"

namespace canter {

/// Options of a store.
struct CheckpointOptions {
  int keep_last = 3;        ///< checkpoints kept, at least 1. Default: 3
  bool background = true;   ///< write in a background thread after a snapshot in memory. Default: true
};

template <class Visitor>
void visit(CheckpointOptions& o, Visitor&& v) {
  v("keep_last", o.keep_last);
  v("background", o.background);
}

/// A checkpoint read and verified.
struct Checkpoint {
  std::int64_t step = 0;
  StateDict state;          ///< views of memory owned by `file`
  Metadata provenance;      ///< versions, hashes, metrics as text
  std::vector<std::string> rejected;  ///< "step-...: reason" of newer candidates that were set aside
  std::shared_ptr<const void> memory;
};

/// Saves and loads checkpoints below one directory. One object per directory and process; methods
/// from one thread at a time.
class CheckpointStore {
 public:
  /// Makes the directory if needed. @throws CheckpointError when it cannot.
  CheckpointStore(std::filesystem::path directory, CheckpointOptions options = {});
  /// Waits for a save in flight.
  ~CheckpointStore();
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  /// Copies the state (the only stall) and commits it in the background; waits for the previous
  /// save first. @throws CheckpointError of this or, when background, of the previous save.
  void save(std::int64_t step, const StateDict& state, const Metadata& provenance);
  /// Blocks until the latest save is durable. @throws CheckpointError if it failed.
  void wait();

  /// The newest checkpoint that verifies; damaged ones are renamed .bad-* and the one before is
  /// tried. Empty when there is none at all.
  /// @throws CheckpointError when there are candidates but none is valid.
  std::optional<Checkpoint> load_newest();

  /// Steps of committed checkpoints, ascending.
  std::vector<std::int64_t> steps() const;
  /// Seconds the latest save() stalled its caller, and bytes of its state.
  double last_stall_seconds() const noexcept;
  std::size_t last_num_bytes() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace canter
