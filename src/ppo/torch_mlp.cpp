// MlpPolicy's architecture out of LibTorch's layers.

#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>

#include <cstring>
#include <vector>

#include "canter/base/error.hpp"
#include "canter/ppo/torch_policy.hpp"

namespace canter {
namespace {

using torch::Tensor;
using torch::nn::Linear;
using torch::nn::ModuleList;

class Mlp final : public torch::nn::Module {
 public:
  Mlp(const Spec& spec, const MlpPolicyOptions& options)
      : activation_(options.activation), shared_(options.shared_trunk) {
    const int outputs =
        spec.is_discrete() ? std::get<Discrete>(spec.action).count : spec.action_size();
    const auto hidden = [&](ModuleList& layers) {
      int inputs = spec.observation_size;
      for (const int size : options.hidden) {
        layers->push_back(Linear(inputs, size));
        inputs = size;
      }
      return inputs;
    };
    if (shared_) {
      const int inputs = hidden(trunk_);
      register_module("trunk", trunk_);
      policy_head_ = register_module("actor", Linear(inputs, outputs));
      value_head_ = register_module("critic", Linear(inputs, 1));
    } else {
      const int inputs = hidden(actor_);
      hidden(critic_);
      actor_->push_back(Linear(inputs, outputs));
      critic_->push_back(Linear(inputs, 1));
      register_module("actor", actor_);
      register_module("critic", critic_);
    }
  }

  std::tuple<Tensor, Tensor> forward(const Tensor& observations) {
    if (shared_) {
      const Tensor features = run(trunk_, observations, true);
      return {policy_head_(features), value_head_(features).squeeze(1)};
    }
    return {run(actor_, observations, false), run(critic_, observations, false).squeeze(1)};
  }

 private:
  Tensor activate(const Tensor& x) const {
    switch (activation_) {
      case Activation::tanh:
        return torch::tanh(x);
      case Activation::relu:
        return torch::relu(x);
      case Activation::elu:
        return torch::elu(x);
    }
    return x;
  }

  // the last layer of a network of its own is linear
  Tensor run(ModuleList& layers, Tensor x, bool activates_last) const {
    for (std::size_t i = 0; i < layers->size(); ++i) {
      x = layers->ptr<torch::nn::LinearImpl>(i)->forward(x);
      if (activates_last || i + 1 < layers->size()) x = activate(x);
    }
    return x;
  }

  Activation activation_;
  bool shared_;
  ModuleList trunk_, actor_, critic_;
  Linear policy_head_{nullptr}, value_head_{nullptr};
};

}  // namespace

TorchNetwork make_torch_mlp(const Spec& spec, const MlpPolicyOptions& options, std::uint64_t seed) {
  // the initial numbers, and the checks of the options, are MlpPolicy's
  const std::shared_ptr<Policy> twin = make_mlp_policy(spec, options, seed);
  auto module = std::make_shared<Mlp>(spec, options);
  const torch::NoGradGuard no_gradients;
  const std::vector<ParameterView> views = twin->parameter_views();
  std::size_t next = 0;
  for (auto& parameter : module->named_parameters()) {
    const ParameterView& view = views[next++];
    if (view.name != parameter.key() || parameter.value().sizes() != view.shape)
      throw Error("the networks of MlpPolicy and LibTorch differ at " + view.name);
    std::memcpy(parameter.value().data_ptr(), twin->parameters().data() + view.offset,
                view.size * sizeof(float));
  }
  return as_torch_network(module);
}

}  // namespace canter
