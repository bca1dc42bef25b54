#pragma once
// MlpPolicy: multilayer perceptrons for policy and value with hand-written forward and backward
// passes in vectorised tiles. Links with the C++ standard library alone; runs in the caller's
// thread unless it is given Threads. Same bits for any number of threads.

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "canter/ppo/policy.hpp"

namespace canter {

enum class Activation { tanh, relu, elu };
constexpr std::array<std::string_view, 3> enum_names(Activation) {
  return {"tanh", "relu", "elu"};
}

/// Log standard deviations are used clamped to [kMinLogStd, kMaxLogStd]: std stays within
/// [4.5e-5, 148] whatever the optimiser does. Beyond a bound, gradients that lead back are passed.
constexpr float kMinLogStd = -10.0f, kMaxLogStd = 5.0f;

/// Options of an MLP policy.
struct MlpPolicyOptions {
  std::vector<int> hidden{64, 64};  ///< widths of the hidden layers; may be empty (linear)
  Activation activation = Activation::tanh;
  bool shared_trunk = false;  ///< one trunk with two heads instead of two networks
  float log_std_init = 0.0f;  ///< initial log standard deviation (Box actions)
  float policy_gain = 0.01f;  ///< gain of the orthogonal initialisation of the last policy layer
  /// (x - mean) / std with running moments; x itself before the first
  bool normalize_observations = true;
  float clip_observation = 10.0f;  ///< of normalised observations; <= 0: no clip
  bool normalize_rewards = true;   ///< rewards / std of the discounted return
};

template <class Visitor>
void visit(MlpPolicyOptions& o, Visitor&& v) {
  v("hidden", o.hidden);
  v("activation", o.activation);
  v("shared_trunk", o.shared_trunk);
  v("log_std_init", o.log_std_init);
  v("policy_gain", o.policy_gain);
  v("normalize_observations", o.normalize_observations);
  v("clip_observation", o.clip_observation);
  v("normalize_rewards", o.normalize_rewards);
}

/// Makes an MLP policy: diagonal Gaussian for Box actions, categorical for Discrete.
/// Weights orthogonal (gain sqrt 2 hidden, policy_gain policy head, 1 value head), biases 0, from
/// the `initialisation` stream of `seed`. Parameters, in order: actor.<layer>.weight [out, in] and
/// .bias, critic.<layer>..., log_std (Box); with a shared trunk: trunk.<layer>..., actor.weight,
/// actor.bias, critic.weight, critic.bias, log_std.
/// @throws InvalidArgument for sizes < 1 or > 65536 and for gains, clips and log_std_init that are
/// not finite.
std::shared_ptr<Policy> make_mlp_policy(const Spec& spec, const MlpPolicyOptions& options = {},
                                        std::uint64_t seed = 0);

/// Options of a policy that make_mlp_policy made. @throws InvalidArgument for another kind.
const MlpPolicyOptions& mlp_options(const Policy& policy);

/// Name of the kernels in use: "x86-64-v3" (AVX2), "x86-64-v4" (AVX-512, chosen where the CPU has
/// it) or "portable". They give the same bits.
/// @throws Error when this CPU lacks what the kernels need, with the fix.
std::string_view kernel_name();

}  // namespace canter
