#include "canter/env/mujoco/action_box.hpp"

#include <cstddef>
#include <limits>

namespace canter::mujoco {

Box action_box(const mjModel& model) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Box box{.size = static_cast<int>(model.nu)};
  const auto size = static_cast<std::size_t>(model.nu);
  box.lows.assign(size, -infinity);
  box.highs.assign(size, infinity);
  for (std::size_t i = 0; i < size; ++i) {
    if (!model.actuator_ctrllimited[i]) continue;
    box.lows[i] = static_cast<float>(model.actuator_ctrlrange[2 * i]);
    box.highs[i] = static_cast<float>(model.actuator_ctrlrange[2 * i + 1]);
  }
  return box;
}

}  // namespace canter::mujoco
