#pragma once
// The tasks that canter brings along: one factory per file of this folder. The registry lists them.

#include <memory>

#include "canter/env/pool.hpp"

namespace canter::tasks {

using PoolPointer = std::shared_ptr<EnvPool>;

// plain C++ environments
PoolPointer make_cart_pole(const PoolOptions& options);
PoolPointer make_pendulum(const PoolOptions& options);

// MuJoCo tasks; options.model_path names the model file
PoolPointer make_ant(const PoolOptions& options);
PoolPointer make_half_cheetah(const PoolOptions& options);
PoolPointer make_hopper(const PoolOptions& options);
PoolPointer make_inverted_pendulum(const PoolOptions& options);
PoolPointer make_walker2d(const PoolOptions& options);

}  // namespace canter::tasks
