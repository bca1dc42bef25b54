#pragma once
// What the locomotion tasks have in common: they start from a noisy pose, are paid for moving
// forward and for staying healthy, and are charged for the effort. Arithmetic is Gymnasium's, in
// its order and precision, so that rewards agree to the last bit of a float.

#include <array>
#include <functional>
#include <limits>
#include <span>
#include <string>

#include <mujoco/mujoco.h>

#include "canter/base/error.hpp"
#include "canter/base/rng.hpp"

namespace canter::tasks {

/// Refuses a model that the task's formulas cannot be read from, before anything indexes it.
/// @throws ModelError if it has fewer positions or bodies (the world included) than these.
inline void require_size(const mjModel& model, int num_positions, int num_bodies) {
  if (model.nq >= num_positions && model.nbody >= num_bodies) return;
  throw ModelError("this task needs a model with at least " + std::to_string(num_positions) +
                   " positions and " + std::to_string(num_bodies) + " bodies, got " +
                   std::to_string(model.nq) + " and " + std::to_string(model.nbody));
}

/// Healthy values, bounds excluded. NaN is outside of every range.
struct OpenRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool contains(double x) const noexcept { return low < x && x < high; }
  bool contains(std::span<const double> values) const noexcept {
    bool all = true;
    for (const double x : values) all = all && contains(x);
    return all;
  }
};

/// Adds scale * U(-1, 1) to every value.
inline void add_uniform(std::span<double> values, double scale, Rng& rng) noexcept {
  for (double& x : values) x += rng.uniform(-scale, scale);
}

/// Adds scale * N(0, 1) to every value.
inline void add_normal(std::span<double> values, double scale, Rng& rng) noexcept {
  for (double& x : values) x += scale * rng.normal();
}

/// Sum of the squares of `transform(value)` in NumPy's order of np.sum(np.square(values)) for up to
/// 128 values: eight running sums joined in pairs, then the rest. In the values' own precision.
template <class Float, class Transform = std::identity>
Float sum_of_squares(std::span<const Float> values, Transform transform = {}) noexcept {
  const auto square = [&](std::size_t i) {
    const Float x = transform(values[i]);
    return x * x;
  };
  const std::size_t tail = values.size() < 8 ? 0 : values.size() - values.size() % 8;
  Float sum = 0;
  if (tail > 0) {
    std::array<Float, 8> lanes{};
    for (std::size_t i = 0; i < tail; i += 8)
      for (std::size_t k = 0; k < 8; ++k) lanes[k] += square(i + k);
    sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
          ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  }
  for (std::size_t i = tail; i < values.size(); ++i) sum += square(i);
  return sum;
}

/// Reward terms of the latest step, and the position that the next step is measured from.
struct Gait {
  double x = 0;               ///< where the next step starts [m]
  double x_velocity = 0;      ///< of the latest step [m/s]
  double reward_ctrl = 0;     ///< minus the cost of the action
  double reward_survive = 0;  ///< paid while healthy

  /// Begins an episode at position `start`.
  void start(double start) noexcept { *this = {.x = start}; }

  /// Takes the position after a step of `seconds`.
  void move(double x_after, double seconds) noexcept {
    x_velocity = (x_after - x) / seconds;
    x = x_after;
  }
  /// Charges weight * |action|^2; float32 like the action.
  void charge(std::span<const float> action, float weight) noexcept {
    reward_ctrl = -static_cast<double>(weight * sum_of_squares(action));
  }
  /// Sum of all terms; moving forward is paid at 1 per m/s.
  double reward() const noexcept { return (x_velocity + reward_survive) + reward_ctrl; }

  /// The terms are rewritten by every step before they are read: only the position lasts.
  template <class Visitor>
  void state(Visitor& v) {
    v("x", x);
  }
};

}  // namespace canter::tasks
