#pragma once
// Evaluation of a policy on a pool, without favouring short episodes.

#include <cstdint>
#include <functional>
#include <vector>

#include "canter/env/pool.hpp"
#include "canter/ppo/policy.hpp"

namespace canter {

/// Options of an evaluation.
struct EvaluateOptions {
  int episodes =
      100;  ///< in all; environment i gets episodes / num_envs (+1 for the first ones) in advance
  bool deterministic = true;  ///< the mode of the distribution instead of samples
  std::uint64_t seed = 0;     ///< of the environments and of sampled actions
};

template <class Visitor>
void visit(EvaluateOptions& o, Visitor&& v) {
  v("episodes", o.episodes);
  v("deterministic", o.deterministic);
  v("seed", o.seed);
}

/// Result of an evaluation.
struct Evaluation {
  std::vector<float> returns;              ///< float[episodes], environment by environment
  std::vector<std::int32_t> lengths;       ///< steps
  double return_mean = 0, return_std = 0;  ///< sample standard deviation (0 for one episode)
  double return_low = 0, return_high = 0;  ///< 95 % confidence interval of the mean (Student's t)
  double length_mean = 0;
};

/// Runs full episodes with the normalisers frozen. Resets the pool and leaves it in mid-episode.
/// `keep_going` is asked after every pool step; false ends the evaluation, and episodes that have
/// not ended count as 0.
/// @throws InvalidArgument if the policy does not fit the pool, or episodes < 1.
Evaluation evaluate(EnvPool& pool, Policy& policy, const EvaluateOptions& options = {},
                    const std::function<bool()>& keep_going = {});

}  // namespace canter
