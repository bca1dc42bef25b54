#include "canter/base/spec.hpp"

#include <cmath>

#include "canter/base/error.hpp"

namespace canter {
namespace {

[[noreturn]] void refuse(const std::string& field, const std::string& expected, long long value) {
  throw InvalidArgument("Spec." + field + " must be " + expected + ", got " +
                        std::to_string(value));
}

void check_box(const Box& box) {
  if (box.size < 0) refuse("action.size", ">= 0", box.size);
  const auto size = static_cast<std::size_t>(box.size);
  if (!box.lows.empty() && box.lows.size() != size)
    refuse("action.lows", "empty or of " + std::to_string(size) + " entries",
           static_cast<long long>(box.lows.size()));
  if (!box.highs.empty() && box.highs.size() != size)
    refuse("action.highs", "empty or of " + std::to_string(size) + " entries",
           static_cast<long long>(box.highs.size()));
  for (int i = 0; i < box.size; ++i)
    if (!(box.low_of(i) < box.high_of(i)))
      throw InvalidArgument("Spec.action: entry " + std::to_string(i) + " has low " +
                            std::to_string(box.low_of(i)) + " and high " +
                            std::to_string(box.high_of(i)) + "; low must be below high");
}

}  // namespace

void check(const Spec& spec) {
  if (spec.observation_size < 0) refuse("observation_size", ">= 0", spec.observation_size);
  if (spec.frame_skip < 1) refuse("frame_skip", ">= 1", spec.frame_skip);
  if (spec.max_episode_steps < 0) refuse("max_episode_steps", ">= 0", spec.max_episode_steps);
  if (const Box* box = std::get_if<Box>(&spec.action)) check_box(*box);
  if (const Discrete* discrete = std::get_if<Discrete>(&spec.action);
      discrete && discrete->count < 1)
    refuse("action.count", ">= 1", discrete->count);
  for (const ObservationGroup& group : spec.groups)
    if (group.first < 0 || group.size < 0 || group.first > spec.observation_size - group.size)
      throw InvalidArgument("Spec.groups: \"" + group.name + "\" is [" +
                            std::to_string(group.first) + ", " +
                            std::to_string(group.first + group.size) + ") in a row of " +
                            std::to_string(spec.observation_size));
  const auto width = static_cast<std::size_t>(spec.observation_size);
  for (const auto* bounds : {&spec.observation_lows, &spec.observation_highs})
    if (!bounds->empty() && bounds->size() != width)
      refuse("observation bounds", "empty or of " + std::to_string(width) + " entries",
             static_cast<long long>(bounds->size()));
}

}  // namespace canter
