#pragma once
// Policy: the seam between the learner and the networks. All parameters live in one flat float32
// array, gradients in another; optimiser, clipping, schedules, sync and checkpoints see only those.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "canter/base/rng.hpp"
#include "canter/base/spec.hpp"
#include "canter/base/state.hpp"
#include "canter/base/threads.hpp"
#include "canter/ppo/running_moments.hpp"

namespace canter {

/// A named tensor inside the flat parameter array.
struct ParameterView {
  std::string name;                 ///< "actor.0.weight"
  std::vector<std::int64_t> shape;  ///< row-major
  std::size_t offset = 0;           ///< first element in the flat array
  std::size_t size = 0;
};

/// What a policy looks at for one step of all environments.
struct ActInput {
  std::span<const float> observations;  ///< raw float[num_rows, observation_size]
  /// 0/1 [num_rows]; may be empty for state_size() == 0
  std::span<const std::uint8_t> episode_starts{};
  std::span<float> hidden_state{};  ///< float[num_rows, state_size], updated; may be empty
  /// 0/1 [num_rows, count], discrete only; empty: all allowed
  std::span<const std::uint8_t> action_masks{};
  // noise of row i: stream `action`, id = first_id + i, episode = step
  std::uint64_t seed = 0;
  std::uint32_t first_id = 0;
  std::uint32_t step = 0;
  bool deterministic = false;  ///< the mode instead of a sample
};

/// Where a policy writes; spans other than env_actions may be empty (then not computed).
struct ActOutput {
  /// float[num_rows, action_size], clipped to the space: for the pool
  std::span<float> env_actions;
  std::span<float> actions{};    ///< the raw sample: for the loss
  std::span<float> log_probs{};  ///< float[num_rows] of the raw sample
  std::span<float> values{};     ///< float[num_rows], in units of the (normalised) reward
};

/// Samples of a rollout, flattened to [num_samples, ...].
struct SampleView {
  std::span<const float> observations;  ///< raw
  std::span<const float> actions;       ///< raw
  std::span<const float> log_probs;     ///< at rollout time
  std::span<const float> values;        ///< at rollout time
  std::span<const float> advantages;
  std::span<const float> returns;
  std::span<const std::uint8_t> action_masks{};
};

/// Coefficients of the PPO loss.
struct LossOptions {
  float clip_range = 0.2f;        ///< epsilon of the clipped surrogate
  float clip_range_value = 0.2f;  ///< epsilon of the clipped value loss; <= 0: plain squared error
  float entropy_coefficient = 0;
  float value_coefficient = 0.5f;
  /// (A - mean) / (std + 1e-8) over the minibatch; moments given below
  bool normalize_advantages = true;
  float advantage_mean = 0;   ///< of this minibatch, over all ranks
  float advantage_scale = 1;  ///< 1 / (std + 1e-8)
};

/// Sums over the samples of a minibatch; divide by num_samples.
struct LossStatistics {
  double policy_loss = 0, value_loss = 0, entropy = 0, approx_kl = 0, clip_fraction = 0;
  std::int64_t num_samples = 0;
};

/// A trainable stochastic policy with a value function. Calls on one object from several threads at
/// once are not allowed; a call may use the object's own Threads.
class Policy {
 public:
  virtual ~Policy() = default;

  /// Sizes and bounds of what it was made for.
  virtual const Spec& spec() const noexcept = 0;
  /// "mlp" or "torch": who can load its file.
  virtual std::string kind() const = 0;
  /// Floats of recurrent state per environment; 0 for feed-forward networks.
  virtual int state_size() const noexcept { return 0; }

  /// Samples actions. Same bits for any batch split and any number of threads.
  virtual void act(const ActInput& input, const ActOutput& output) = 0;
  /// V(observation): raw float[n, observation_size] -> float[n].
  virtual void value(std::span<const float> observations, std::span<float> values) = 0;
  /// Adds d(loss)/d(parameters) of the mean loss over `indices` (times weight) to gradients().
  /// weight = local samples / samples of all ranks.
  virtual LossStatistics backward(const SampleView& samples, std::span<const std::int32_t> indices,
                                  const LossOptions& options, float weight) = 0;

  virtual std::span<float> parameters() noexcept = 0;
  virtual std::span<const float> parameters() const noexcept = 0;
  virtual std::span<float> gradients() noexcept = 0;
  virtual std::vector<ParameterView> parameter_views() const = 0;
  /// Called after somebody else wrote parameters() (the optimiser does): device mirrors, packed
  /// weights.
  virtual void parameters_changed() {}

  /// Moments that act, value and backward normalise observations with; count 0: identity. Null:
  /// none.
  virtual RunningMoments* observation_moments() noexcept = 0;
  /// Moments of the discounted return that scale rewards (one entry). Null: rewards are not scaled.
  virtual RunningMoments* return_moments() noexcept = 0;

  /// Threads to use from now on; a policy starts with the caller's thread alone.
  virtual void set_threads(std::shared_ptr<Threads> threads) = 0;

  virtual void save(StateDict& state) const = 0;
  virtual void validate(const StateDict& state) const = 0;
  virtual void load(const StateDict& state) = 0;
};

}  // namespace canter
