#pragma once
// Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438):
//   delta_t = r_t + gamma V'_t - V(s_t),   A_t = delta_t + gamma lambda (1 - ended_t) A_{t+1}
// where V'_t is 0 after a termination, V(final observation) after a time limit, else V(s_{t+1}).

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace canter {

/// How a rollout row whose episode the time limit ended enters the advantages. A row that is
/// terminated as well counts as terminated.
///   bootstrap: V(final observation) follows it: the episode would have gone on;
///   terminal:  nothing follows it, as if the task had ended it (CleanRL, OpenAI baselines);
///   mask:      what follows is unknown: its advantage is 0, its return V(s_t), and it leaves the
///   loss.
enum class TruncationHandling { bootstrap, terminal, mask };
constexpr std::array<std::string_view, 3> enum_names(TruncationHandling) {
  return {"bootstrap", "terminal", "mask"};
}

/// Rows of a rollout; row t is [num_envs].
struct AdvantageInput {
  int horizon = 0;
  int num_envs = 0;
  std::span<const float> rewards;  ///< float[horizon, num_envs]
  std::span<const float> values;   ///< float[horizon + 1, num_envs]; last row: V(last observation)
  std::span<const std::uint8_t>
      terminated;  ///< 0/1 [horizon, num_envs]: *this* step ended the episode
  std::span<const std::uint8_t> truncated;  ///< 0/1 [horizon, num_envs]
  std::span<const float>
      final_values;  ///< V(final observation) float[horizon, num_envs]; read where truncated
};

/// Discounts of the estimator.
struct AdvantageOptions {
  float gamma = 0.99f;
  float gae_lambda = 0.95f;
  TruncationHandling truncation = TruncationHandling::bootstrap;
};

/// Writes advantages and returns (advantages + values), float[horizon, num_envs]. Allocates
/// nothing.
/// @throws InvalidArgument when a span has another size.
void compute_advantages(const AdvantageInput& input, const AdvantageOptions& options,
                        std::span<float> advantages, std::span<float> returns);

/// Whether row `sample` of the flattened rollout stays out of the loss.
inline bool is_masked(const AdvantageInput& input, TruncationHandling truncation,
                      std::size_t sample) noexcept {
  return truncation == TruncationHandling::mask && input.truncated[sample] != 0 &&
         input.terminated[sample] == 0;
}

}  // namespace canter
