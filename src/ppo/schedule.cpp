// Schedules are functions of the steps done so far. Nothing is cached, so nothing can be stale
// after a checkpoint is loaded or the length of the run has changed.

#include <algorithm>

#include "canter/ppo/ppo.hpp"

namespace canter {

double learning_rate_at(const PpoOptions& options, std::int64_t env_steps,
                        std::int64_t total_steps) noexcept {
  const double initial = static_cast<double>(options.learning_rate);
  if (options.learning_rate_schedule == Schedule::constant || total_steps <= 0) return initial;
  const double progress = static_cast<double>(env_steps) / static_cast<double>(total_steps);
  return initial * std::clamp(1 - progress, 0.0, 1.0);
}

}  // namespace canter
