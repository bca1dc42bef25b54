#include "canter/env/shard.hpp"

#include "canter/base/error.hpp"

namespace canter {

EnvState Shard::state(int) const {
  throw InvalidArgument("state: this simulator has no qpos and qvel");
}

void Shard::reset_to(int, std::span<const double>, std::span<const double>, const ShardRows&,
                     Faults&) {
  throw InvalidArgument("reset_to: this simulator has no qpos and qvel");
}

void Shard::count_warnings(WarningCounts&) const {}

}  // namespace canter
