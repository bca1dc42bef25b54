#include "rank_state.hpp"

#include <utility>

#include "canter/base/error.hpp"

namespace canter::detail {
namespace {

bool has_env_rows(const Array& array) {
  return array.name.starts_with("env/") && !array.shape.empty();
}

}  // namespace

StateDict gather_state(const StateDict& local, Communicator& communicator,
                       std::deque<std::vector<std::byte>>& memory) {
  StateDict global;
  const int size = communicator.size();
  for (const Array& array : local.arrays()) {
    if (size == 1 || !has_env_rows(array)) {
      global.append(Array(array));
      continue;
    }
    auto& all = memory.emplace_back(array.bytes.size() * static_cast<std::size_t>(size));
    communicator.all_gather(array.bytes, all);
    std::vector<std::int64_t> shape = array.shape;
    shape[0] *= size;
    global.append(Array{array.name, array.dtype, std::move(shape), all});
  }
  return global;
}

StateDict state_of_rank(const StateDict& global, int rank, int size) {
  StateDict local;
  for (const Array& array : global.arrays()) {
    Array part = array;
    if (size > 1 && has_env_rows(array)) {
      if (array.shape[0] % size != 0)
        throw CheckpointError("array '" + array.name + "' has " + std::to_string(array.shape[0]) +
                              " rows, which " + std::to_string(size) + " ranks cannot divide");
      part.shape[0] /= size;
      const std::size_t bytes = array.bytes.size() / static_cast<std::size_t>(size);
      part.bytes = array.bytes.subspan(bytes * static_cast<std::size_t>(rank), bytes);
    }
    local.append(std::move(part));
  }
  return local;
}

}  // namespace canter::detail
