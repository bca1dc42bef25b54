#include "ppo/faults.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "ppo/kernels_adam.hpp"

namespace canter::detail {
namespace {

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", x);
  return text;
}

bool is_usable(float x) noexcept {
  return std::abs(x) <= kernels::kLargestUsable;
}

std::string place(const Rollout& rollout, std::size_t sample) {
  const auto num_envs = static_cast<std::size_t>(rollout.num_envs());
  return " at environment " + std::to_string(sample % num_envs) + ", step " +
         std::to_string(sample / num_envs);
}

// the first unusable number of an array with `width` numbers per sample
std::string find_in(const char* name, std::span<const float> array, std::size_t width,
                    const Rollout& rollout) {
  if (kernels::all_usable(array.data(), array.size())) return {};
  std::size_t i = 0;
  while (is_usable(array[i])) ++i;
  const std::string entry = width > 1 ? "[" + std::to_string(i % width) + "]" : "";
  return name + entry + ": " + number(static_cast<double>(array[i])) + place(rollout, i / width);
}

// values of final observations exist where the time limit ended an episode
std::string find_in_final_values(const Rollout& rollout) {
  for (std::size_t i = 0; i < rollout.truncated.size(); ++i)
    if (rollout.truncated[i] != 0 && rollout.terminated[i] == 0 &&
        !is_usable(rollout.final_values[i]))
      return "final_values: " + number(static_cast<double>(rollout.final_values[i])) +
             place(rollout, i);
  return {};
}

}  // namespace

std::string find_fault(const Rollout& rollout) {
  // causes before consequences: an observation that is not finite spoils actions and values too
  const auto observation_size = static_cast<std::size_t>(rollout.observation_size());
  const std::size_t action_size =
      rollout.actions.size() / static_cast<std::size_t>(rollout.num_samples());
  std::string fault = find_in("observations", rollout.observations, observation_size, rollout);
  if (fault.empty()) fault = find_in("rewards", rollout.rewards, 1, rollout);
  if (fault.empty()) fault = find_in("actions", rollout.actions, action_size, rollout);
  if (fault.empty()) fault = find_in("log_probs", rollout.log_probs, 1, rollout);
  if (fault.empty()) fault = find_in("values", rollout.values, 1, rollout);
  if (fault.empty()) fault = find_in_final_values(rollout);
  return fault;
}

bool is_finite(std::span<const double> sums) noexcept {
  return std::all_of(sums.begin(), sums.end(), [](double x) { return std::isfinite(x); });
}

std::string name_fault(int epoch, int minibatch, const LossStatistics& sums, const Policy& policy,
                       std::span<const float> gradients, std::span<const std::int32_t> indices,
                       const Rollout& rollout) {
  // which tensor: a loss, else the first gradient
  std::string text;
  const std::pair<const char*, double> losses[] = {{"policy_loss", sums.policy_loss},
                                                   {"value_loss", sums.value_loss},
                                                   {"entropy", sums.entropy},
                                                   {"approx_kl", sums.approx_kl}};
  for (const auto& [name, value] : losses)
    if (text.empty() && !std::isfinite(value)) text = std::string(name) + ": " + number(value);
  for (const ParameterView& view : policy.parameter_views())
    for (std::size_t i = view.offset; text.empty() && i < view.offset + view.size; ++i)
      if (!std::isfinite(gradients[i]))
        text = "gradient of " + view.name + ": " + number(static_cast<double>(gradients[i]));
  text += " in epoch " + std::to_string(epoch) + ", minibatch " + std::to_string(minibatch);

  // which sample: the one that is furthest from what was expected
  const auto distance = [&](std::int32_t i) {
    return std::abs(rollout.advantages[static_cast<std::size_t>(i)]);
  };
  const auto worst = std::max_element(indices.begin(), indices.end(),
                                      [&](auto a, auto b) { return distance(a) < distance(b); });
  if (worst != indices.end())
    text += "; largest |return - value| " + number(static_cast<double>(distance(*worst))) +
            place(rollout, static_cast<std::size_t>(*worst));
  return text;
}

}  // namespace canter::detail
