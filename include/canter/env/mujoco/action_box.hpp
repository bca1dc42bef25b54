#pragma once
// The action space that a model itself describes.

#include <mujoco/mujoco.h>

#include "canter/base/spec.hpp"

namespace canter::mujoco {

/// One action per control of the model, within the actuators' control ranges; unbounded where an
/// actuator is not limited (its ctrlrange of "0 0" is no range then). MuJoCo clamps controls to the
/// same ranges, so an action outside of them acts like the bound.
Box action_box(const mjModel& model);

}  // namespace canter::mujoco
