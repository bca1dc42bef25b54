// Walker2d-v5: a planar pair of legs that walks forward without falling.
// Definition: gymnasium.envs.mujoco.walker2d_v5 (Gymnasium 1.4), whose model is walker2d_v5.xml.
// observation float[17] = qpos[1:9], qvel[9]; action float[6] in [-1, 1]; steps of 4 x 0.002 s.

#include "builtin.hpp"
#include "planar_walker.hpp"

namespace canter::tasks {
namespace {

constexpr UprightLimits kWalker2d{.height = {.low = 0.8, .high = 2.0},
                                  .angle = {.low = -1.0, .high = 1.0}};

}  // namespace

PoolPointer make_walker2d(const PoolOptions& options) {
  return mujoco::make_pool<PlanarWalker>(mujoco::load_model(options.model_path), options,
                                         [](const mjModel&) { return PlanarWalker(kWalker2d); });
}

}  // namespace canter::tasks
