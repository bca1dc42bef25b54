#include "canter/ppo/advantages.hpp"

#include <string>

#include "canter/base/error.hpp"

namespace canter {
namespace {

void check_size(const char* name, std::size_t size, std::size_t expected) {
  if (size != expected)
    throw InvalidArgument(std::string("compute_advantages: ") + name + " must hold " +
                          std::to_string(expected) + " numbers, got " + std::to_string(size));
}

void check(const AdvantageInput& in, std::span<float> advantages, std::span<float> returns) {
  if (in.horizon < 1 || in.num_envs < 1)
    throw InvalidArgument("compute_advantages: horizon and num_envs must be >= 1, got " +
                          std::to_string(in.horizon) + " and " + std::to_string(in.num_envs));
  const auto num_envs = static_cast<std::size_t>(in.num_envs);
  const std::size_t num_samples = static_cast<std::size_t>(in.horizon) * num_envs;
  check_size("rewards", in.rewards.size(), num_samples);
  check_size("values", in.values.size(), num_samples + num_envs);
  check_size("terminated", in.terminated.size(), num_samples);
  check_size("truncated", in.truncated.size(), num_samples);
  check_size("final_values", in.final_values.size(), num_samples);
  check_size("advantages", advantages.size(), num_samples);
  check_size("returns", returns.size(), num_samples);
}

}  // namespace

void compute_advantages(const AdvantageInput& in, const AdvantageOptions& options,
                        std::span<float> advantages, std::span<float> returns) {
  check(in, advantages, returns);
  const auto num_envs = static_cast<std::size_t>(in.num_envs);
  const float gamma = options.gamma;
  const float trace = options.gamma * options.gae_lambda;
  const bool terminal = options.truncation == TruncationHandling::terminal;
  const bool mask = options.truncation == TruncationHandling::mask;

  for (std::size_t t = static_cast<std::size_t>(in.horizon); t-- > 0;) {
    const bool is_last_row = t + 1 == static_cast<std::size_t>(in.horizon);
    for (std::size_t env = 0; env < num_envs; ++env) {
      const std::size_t now = t * num_envs + env, next = now + num_envs;
      const bool terminated = in.terminated[now] != 0 || (terminal && in.truncated[now] != 0);
      const bool truncated = !terminated && in.truncated[now] != 0;

      // what follows this step: nothing, the value of the final observation, or the next row
      float next_value = in.values[next], next_advantage = is_last_row ? 0.0f : advantages[next];
      if (terminated || truncated) next_advantage = 0.0f;
      if (terminated) next_value = 0.0f;
      if (truncated) next_value = in.final_values[now];

      const float delta = in.rewards[now] + gamma * next_value - in.values[now];
      advantages[now] = mask && truncated ? 0.0f : delta + trace * next_advantage;
      returns[now] = advantages[now] + in.values[now];
    }
  }
}

}  // namespace canter
