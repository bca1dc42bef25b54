#pragma once
// What an environment's numbers are: sizes, bounds, names, time limit.

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

namespace canter {

/// A continuous action: `size` floats, each within its bounds.
struct Box {
  int size = 0;
  float low = -std::numeric_limits<float>::infinity();  ///< bound of every entry ...
  float high = std::numeric_limits<float>::infinity();
  std::vector<float> lows{};  ///< ... unless given one by one
  std::vector<float> highs{};

  float low_of(int i) const { return lows.empty() ? low : lows[static_cast<std::size_t>(i)]; }
  float high_of(int i) const { return highs.empty() ? high : highs[static_cast<std::size_t>(i)]; }
};

/// A discrete action: one of 0 .. count-1, passed as its integral value in one float.
struct Discrete {
  int count = 0;
};

/// The action of an environment.
using ActionSpec = std::variant<Box, Discrete>;

/// A named slice of the observation row.
struct ObservationGroup {
  std::string name;
  int first = 0;
  int size = 0;
};

/// What an environment promises about its numbers.
struct Spec {
  int observation_size = 0;                ///< floats in an observation row
  ActionSpec action{};                     ///< Box or Discrete
  int frame_skip = 1;                      ///< physics steps per environment step (MuJoCo tasks)
  int max_episode_steps = 0;               ///< time limit in steps; 0: none
  std::vector<ObservationGroup> groups{};  ///< slices of the row; empty: one group "policy"
  std::vector<std::string> metrics{};      ///< names of the values `measure` fills
  bool post_constraint =
      false;  ///< run mj_rnePostConstraint after the last physics step (cfrc_ext, ...)
  std::vector<float> observation_lows{};  ///< bounds of the observation; empty: unbounded
  std::vector<float> observation_highs{};
  double step_seconds = 0;  ///< simulated seconds per environment step [s]; 0: unknown

  /// Floats per action row: Box.size, or 1 for Discrete.
  int action_size() const {
    const Box* box = std::get_if<Box>(&action);
    return box ? box->size : 1;
  }
  bool is_discrete() const { return std::holds_alternative<Discrete>(action); }
};

/// Checks a spec for contradictions.
/// @throws InvalidArgument naming the field and its value.
void check(const Spec& spec);

}  // namespace canter
