#pragma once
// TorchPolicy: any LibTorch module as a policy. Part of canter::torch; the only public header that
// includes LibTorch.
//
//   struct Net : torch::nn::Module {       // parameters float32 on the CPU
//     // [B, n] -> parameters of the distribution [B, p], values [B]
//     std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& observations);
//   };
//   auto policy = canter::make_torch_policy(
//       spec, [] { return canter::as_torch_network(std::make_shared<Net>()); }, {}, /*seed=*/7);

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>

#include "canter/ppo/mlp_policy.hpp"
#include "canter/ppo/policy.hpp"

namespace canter {

/// A network as TorchPolicy sees it: what it holds and what it computes.
struct TorchNetwork {
  std::shared_ptr<torch::nn::Module> module;
  /// Normalised observations float[B, observation_size] -> parameters of the action distribution
  /// float[B, p] (Box: means, p = size; Discrete: logits, p = count) and values float[B].
  std::function<std::tuple<torch::Tensor, torch::Tensor>(const torch::Tensor&)> forward;
};

/// Wraps a module that has `forward(observations) -> tuple of parameters and values`.
template <class Module>
TorchNetwork as_torch_network(std::shared_ptr<Module> module) {
  return {module, [network = module.get()](const torch::Tensor& observations) {
            return network->forward(observations);
          }};
}

/// Options of a torch policy.
struct TorchPolicyOptions {
  float log_std_init = 0.0f;           ///< initial log standard deviation (Box actions)
  bool normalize_observations = true;  ///< (x - mean) / std with running moments
  float clip_observation = 10.0f;      ///< after normalisation; <= 0: no clip
  bool normalize_rewards = true;       ///< rewards / std of the discounted return
};

template <class Visitor>
void visit(TorchPolicyOptions& o, Visitor&& v) {
  v("log_std_init", o.log_std_init);
  v("normalize_observations", o.normalize_observations);
  v("clip_observation", o.clip_observation);
  v("normalize_rewards", o.normalize_rewards);
}

/// Makes a policy of a module. The factory runs with LibTorch's CPU generator seeded by `seed` (its
/// state is restored afterwards). From then on the module's parameters are views of the flat array,
/// in the order and with the names of named_parameters(); "log_std" follows for Box actions.
/// Buffers are saved and loaded with it. The module's training mode is left as it is.
///
/// Actions are sampled from the same streams as MlpPolicy's. Every call uses one intra-op thread
/// and restores the process's setting; set_threads has no effect. LibTorch may round differently
/// for different batch sizes, so "same bits for any batch split" holds for MlpPolicy only.
/// @throws InvalidArgument for parameters that are not float32 on the CPU, and for outputs of other
/// shapes than stated above (seen at the first call).
std::shared_ptr<Policy> make_torch_policy(const Spec& spec,
                                          const std::function<TorchNetwork()>& factory,
                                          const TorchPolicyOptions& options = {},
                                          std::uint64_t seed = 0);

/// MlpPolicy's network as a module: the same architecture, parameter names, order and initial
/// numbers. A start for networks of your own, and the oracle of MlpPolicy's gradients.
TorchNetwork make_torch_mlp(const Spec& spec, const MlpPolicyOptions& options = {},
                            std::uint64_t seed = 0);

}  // namespace canter
