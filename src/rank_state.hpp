#pragma once
// The state of a run on many ranks: arrays below "env/" are the rows of every rank one after
// another, all others are the same everywhere.

#include <deque>
#include <vector>

#include "canter/base/state.hpp"
#include "canter/sync/communicator.hpp"

namespace canter::detail {

/// The state of the run out of those of its ranks; collective. Views of `local` and, for gathered
/// rows, of what it adds to `memory`; both must stay.
StateDict gather_state(const StateDict& local, Communicator& communicator,
                       std::deque<std::vector<std::byte>>& memory);

/// This rank's part of the state of a run: views of `global`.
/// @throws CheckpointError when the rows cannot be divided among the ranks.
StateDict state_of_rank(const StateDict& global, int rank, int size);

}  // namespace canter::detail
