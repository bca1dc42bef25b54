// Hopper-v5: a planar leg that hops forward without falling.
// Definition: gymnasium.envs.mujoco.hopper_v5 (Gymnasium 1.4).
// observation float[11] = qpos[1:6], qvel[6]; action float[3] in [-1, 1]; steps of 4 x 0.002 s.

#include "builtin.hpp"
#include "planar_walker.hpp"

namespace canter::tasks {
namespace {

constexpr UprightLimits kHopper{.height = {.low = 0.7},
                                .angle = {.low = -0.2, .high = 0.2},
                                .state = {.low = -100, .high = 100}};

}  // namespace

PoolPointer make_hopper(const PoolOptions& options) {
  return mujoco::make_pool<PlanarWalker>(mujoco::load_model(options.model_path), options,
                                         [](const mjModel&) { return PlanarWalker(kHopper); });
}

}  // namespace canter::tasks
