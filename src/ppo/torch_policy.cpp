// TorchPolicy: the module computes, autograd differentiates; everything around it is as in
// MlpPolicy.

#include "canter/ppo/torch_policy.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <string>

#include "canter/base/error.hpp"
#include "ppo/distribution.hpp"
#include "ppo/torch_loss.hpp"

namespace canter {
namespace {

using torch::Tensor;

// small networks lose by a second intra-op thread; the process's own setting comes back at the end
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) {
    if (before_ != 1) at::set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) at::set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// the module's initial numbers follow from the seed and disturb no other user of the generator
TorchNetwork build(const std::function<TorchNetwork()>& factory, std::uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const Tensor before = generator.get_state();
  generator.set_current_seed(seed);
  TorchNetwork network = factory();
  generator.set_state(before);
  if (!network.module || !network.forward)
    throw InvalidArgument("the factory of make_torch_policy must return a module and its forward");
  return network;
}

Dtype dtype_of_tensor(const std::string& name, const Tensor& tensor) {
  if (!tensor.is_contiguous() || !tensor.device().is_cpu())
    throw InvalidArgument("buffer " + name + " must be contiguous and on the CPU");
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return Dtype::f32;
    case torch::kFloat64:
      return Dtype::f64;
    case torch::kInt32:
      return Dtype::i32;
    case torch::kInt64:
      return Dtype::i64;
    case torch::kUInt8:
    case torch::kBool:
      return Dtype::u8;
    default:
      break;
  }
  throw InvalidArgument("buffer " + name + " has a type that cannot be saved: " +
                        std::string(torch::toString(tensor.scalar_type())));
}

void check_size(std::size_t actual, std::size_t expected, const char* name) {
  if (actual != expected)
    throw InvalidArgument(std::string(name) + " must hold " + std::to_string(expected) +
                          " numbers, got " + std::to_string(actual));
}

// a tensor over memory that it only reads
Tensor view_of(std::span<const float> data, at::IntArrayRef shape) {
  return torch::from_blob(const_cast<float*>(data.data()), shape, torch::kFloat32);
}

class TorchPolicy final : public Policy {
 public:
  TorchPolicy(const Spec& spec, TorchNetwork network, const TorchPolicyOptions& options);

  const Spec& spec() const noexcept override { return spec_; }
  std::string kind() const override { return "torch"; }

  void act(const ActInput& input, const ActOutput& output) override;
  void value(std::span<const float> observations, std::span<float> values) override;
  LossStatistics backward(const SampleView& samples, std::span<const std::int32_t> indices,
                          const LossOptions& options, float weight) override;

  std::span<float> parameters() noexcept override { return parameters_; }
  std::span<const float> parameters() const noexcept override { return parameters_; }
  std::span<float> gradients() noexcept override { return gradients_; }
  std::vector<ParameterView> parameter_views() const override { return views_; }
  RunningMoments* observation_moments() noexcept override {
    return options_.normalize_observations ? &observation_moments_ : nullptr;
  }
  RunningMoments* return_moments() noexcept override {
    return options_.normalize_rewards ? &return_moments_ : nullptr;
  }
  void set_threads(std::shared_ptr<Threads>) override {}

  void save(StateDict& state) const override;
  void validate(const StateDict& state) const override;
  void load(const StateDict& state) override;

 private:
  void lay_out();
  void add_tensor(const std::string& name, const Tensor& tensor);
  void check_views() const;
  int num_outputs() const {
    return spec_.is_discrete() ? std::get<Discrete>(spec_.action).count : spec_.action_size();
  }

  Tensor normalise(const Tensor& observations) const;
  std::tuple<Tensor, Tensor> forward(const Tensor& observations);
  detail::TorchMinibatch gather(const SampleView& samples,
                                std::span<const std::int32_t> indices) const;
  void act_row(const ActInput& input, const ActOutput& output, std::size_t row,
               const float* outputs);

  Spec spec_;
  TorchNetwork network_;
  TorchPolicyOptions options_;
  std::vector<Tensor> tensors_;  // leaves: views of parameters_, their gradients of gradients_
  Tensor log_std_;               // float[action_size]; undefined for Discrete
  std::vector<std::pair<std::string, Tensor>> buffers_;
  std::vector<ParameterView> views_;
  std::vector<float> parameters_, gradients_;
  RunningMoments observation_moments_, return_moments_;
  std::optional<detail::Gaussian> gaussian_;
  std::optional<detail::Categorical> categorical_;
  std::vector<float> scratch_;                 // float[num_outputs]
  std::vector<float> padded_mean_, padded_z_;  // one row each, as the kernels read them
};

TorchPolicy::TorchPolicy(const Spec& spec, TorchNetwork network, const TorchPolicyOptions& options)
    : spec_(spec),
      network_(std::move(network)),
      options_(options),
      observation_moments_(options.normalize_observations ? spec.observation_size : 0),
      return_moments_(options.normalize_rewards ? 1 : 0) {
  if (spec.is_discrete())
    categorical_.emplace(num_outputs());
  else
    gaussian_.emplace(num_outputs());
  scratch_.resize(static_cast<std::size_t>(num_outputs()));
  padded_mean_.resize((scratch_.size() + 7) / 8 * 8);
  padded_z_.resize(padded_mean_.size());
  lay_out();
}

void TorchPolicy::lay_out() {
  // a tensor that two modules share is one parameter
  std::set<at::TensorImpl*> seen;
  for (const auto& parameter : network_.module->named_parameters())
    if (seen.insert(parameter.value().unsafeGetTensorImpl()).second)
      add_tensor(parameter.key(), parameter.value());
  if (!spec_.is_discrete()) {
    log_std_ = torch::full({num_outputs()}, options_.log_std_init);
    log_std_.requires_grad_();
    add_tensor("log_std", log_std_);
  }
  for (const auto& buffer : network_.module->named_buffers()) {
    dtype_of_tensor(buffer.key(), buffer.value());
    buffers_.emplace_back(buffer.key(), buffer.value());
  }

  // from here on the numbers live in the flat arrays
  const ParameterView& last = views_.back();
  parameters_.resize(last.offset + last.size);
  gradients_.resize(parameters_.size());
  const torch::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto flat = [&](std::vector<float>& array) {
      return torch::from_blob(array.data() + views_[i].offset, views_[i].shape, torch::kFloat32);
    };
    const Tensor data = flat(parameters_);
    data.copy_(tensors_[i]);
    tensors_[i].set_data(data);
    tensors_[i].mutable_grad() = flat(gradients_);
  }
}

void TorchPolicy::add_tensor(const std::string& name, const Tensor& tensor) {
  if (tensor.scalar_type() != torch::kFloat32 || !tensor.device().is_cpu())
    throw InvalidArgument("parameter " + name + " must be float32 on the CPU, is " +
                          std::string(torch::toString(tensor.scalar_type())) + " on " +
                          tensor.device().str());
  const std::size_t offset = views_.empty() ? 0 : views_.back().offset + views_.back().size;
  views_.push_back({name, tensor.sizes().vec(), offset, static_cast<std::size_t>(tensor.numel())});
  tensors_.push_back(tensor);
}

void TorchPolicy::check_views() const {
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (tensors_[i].data_ptr() != parameters_.data() + views_[i].offset ||
        !tensors_[i].grad().defined() ||
        tensors_[i].grad().data_ptr() != gradients_.data() + views_[i].offset)
      throw Error("parameter " + views_[i].name +
                  " or its gradient is no view of the policy's flat array any more; do not move "
                  "the module to another type or device, nor replace its gradients");
}

// (x - mean) / std, clipped; the identity while nothing has been seen
Tensor TorchPolicy::normalise(const Tensor& observations) const {
  if (!options_.normalize_observations || observation_moments_.count() == 0) return observations;
  const std::int64_t size = spec_.observation_size;
  const Tensor mean = torch::empty({size}), inverse_std = torch::empty({size});
  observation_moments_.normaliser({mean.data_ptr<float>(), static_cast<std::size_t>(size)},
                                  {inverse_std.data_ptr<float>(), static_cast<std::size_t>(size)});
  const Tensor normalised = (observations - mean) * inverse_std;
  const float clip = options_.clip_observation;
  return clip > 0 ? normalised.clamp(-clip, clip) : normalised;
}

std::tuple<Tensor, Tensor> TorchPolicy::forward(const Tensor& observations) {
  auto [outputs, values] = network_.forward(normalise(observations));
  const std::int64_t rows = observations.size(0);
  const auto check = [&](const Tensor& tensor, const char* name, std::vector<std::int64_t> shape) {
    if (tensor.sizes() == shape && tensor.scalar_type() == torch::kFloat32) return;
    std::string text = "forward must return " + std::string(name) + " as float32[";
    for (std::size_t i = 0; i < shape.size(); ++i)
      text += (i ? ", " : "") + std::to_string(shape[i]);
    text += "], got " + std::string(torch::toString(tensor.scalar_type())) + "[";
    for (std::int64_t i = 0; i < tensor.dim(); ++i)
      text += (i ? ", " : "") + std::to_string(tensor.size(i));
    throw InvalidArgument(text + "]");
  };
  check(outputs, "parameters", {rows, num_outputs()});
  check(values, "values", {rows});
  return {outputs, values};
}

void TorchPolicy::value(std::span<const float> observations, std::span<float> values) {
  const auto rows = static_cast<std::int64_t>(values.size());
  check_size(observations.size(), values.size() * static_cast<std::size_t>(spec_.observation_size),
             "observations");
  if (rows == 0) return;
  const OneThread one_thread;
  const torch::NoGradGuard no_gradients;
  const Tensor result =
      std::get<1>(forward(view_of(observations, {rows, spec_.observation_size}))).contiguous();
  std::memcpy(values.data(), result.data_ptr(), values.size() * sizeof(float));
}

void TorchPolicy::act(const ActInput& input, const ActOutput& output) {
  const auto size = static_cast<std::size_t>(spec_.observation_size);
  const std::size_t rows = input.observations.size() / size;
  const std::size_t num_actions = rows * static_cast<std::size_t>(spec_.action_size());
  check_size(input.observations.size(), rows * size, "observations");
  check_size(output.env_actions.size(), num_actions, "env_actions");
  if (!output.actions.empty()) check_size(output.actions.size(), num_actions, "actions");
  if (!output.log_probs.empty()) check_size(output.log_probs.size(), rows, "log_probs");
  if (!output.values.empty()) check_size(output.values.size(), rows, "values");
  if (!input.action_masks.empty())
    check_size(input.action_masks.size(), rows * scratch_.size(), "action_masks");
  if (rows == 0) return;

  const OneThread one_thread;
  const torch::NoGradGuard no_gradients;
  const auto [outputs, values] = forward(
      view_of(input.observations, {static_cast<std::int64_t>(rows), spec_.observation_size}));
  const Tensor dense_outputs = outputs.contiguous(), dense_values = values.contiguous();
  if (gaussian_) gaussian_->set_log_std(log_std_.data_ptr<float>());
  for (std::size_t row = 0; row < rows; ++row)
    act_row(input, output, row, dense_outputs.data_ptr<float>() + row * scratch_.size());
  if (!output.values.empty())
    std::memcpy(output.values.data(), dense_values.data_ptr(), rows * sizeof(float));
}

void TorchPolicy::act_row(const ActInput& input, const ActOutput& output, std::size_t row,
                          const float* outputs) {
  Rng rng(input.seed, Stream::action, input.first_id + static_cast<std::uint32_t>(row), input.step);
  const auto size = static_cast<std::size_t>(spec_.action_size());
  float* action = output.env_actions.data() + row * size;
  const std::uint8_t* mask =
      input.action_masks.empty() ? nullptr : input.action_masks.data() + row * scratch_.size();
  float log_prob = 0;
  if (categorical_) {
    if (input.deterministic)
      categorical_->mode(outputs, mask, action);
    else
      categorical_->sample(outputs, mask, rng, scratch_.data(), action);
    log_prob = categorical_->log_prob(outputs, mask, action, scratch_.data());
  } else {
    if (input.deterministic)
      gaussian_->mode(outputs, action);
    else
      gaussian_->sample(outputs, rng, action);
    // the kernels read whole vectors, and LibTorch's rows end where they end
    std::copy_n(outputs, size, padded_mean_.begin());
    gaussian_->log_probs(padded_mean_.data(), static_cast<int>(padded_mean_.size()), action,
                         nullptr, 0, 1, padded_z_.data(), &log_prob);
  }
  if (!output.log_probs.empty()) output.log_probs[row] = log_prob;
  if (!output.actions.empty()) std::copy_n(action, size, output.actions.data() + row * size);
  if (const Box* box = std::get_if<Box>(&spec_.action))
    for (int i = 0; i < box->size; ++i)
      action[i] = std::clamp(action[i], box->low_of(i), box->high_of(i));
}

detail::TorchMinibatch TorchPolicy::gather(const SampleView& samples,
                                           std::span<const std::int32_t> indices) const {
  const auto num_samples = static_cast<std::int64_t>(samples.advantages.size());
  const Tensor index = torch::from_blob(const_cast<std::int32_t*>(indices.data()),
                                        {static_cast<std::int64_t>(indices.size())}, torch::kInt32);
  const auto rows_of = [&](std::span<const float> data, std::int64_t width, const char* name) {
    check_size(data.size(), static_cast<std::size_t>(num_samples * width), name);
    return view_of(data, {num_samples, width}).index_select(0, index);
  };
  const auto scalars_of = [&](std::span<const float> data, const char* name) {
    return rows_of(data, 1, name).squeeze(1);
  };
  detail::TorchMinibatch rows{
      .observations = rows_of(samples.observations, spec_.observation_size, "observations"),
      .actions = rows_of(samples.actions, spec_.action_size(), "actions"),
      .masks = {},
      .log_probs = scalars_of(samples.log_probs, "log_probs"),
      .values = scalars_of(samples.values, "values"),
      .advantages = scalars_of(samples.advantages, "advantages"),
      .returns = scalars_of(samples.returns, "returns")};
  if (!samples.action_masks.empty())
    rows.masks = torch::from_blob(const_cast<std::uint8_t*>(samples.action_masks.data()),
                                  {num_samples, num_outputs()}, torch::kUInt8)
                     .index_select(0, index);
  return rows;
}

LossStatistics TorchPolicy::backward(const SampleView& samples,
                                     std::span<const std::int32_t> indices,
                                     const LossOptions& options, float weight) {
  if (indices.empty()) return {};
  check_views();
  const OneThread one_thread;
  const torch::AutoGradMode with_gradients(true);
  const detail::TorchMinibatch rows = gather(samples, indices);
  const auto [outputs, values] = forward(rows.observations);
  const auto [log_probs, entropy] =
      gaussian_ ? detail::gaussian_terms(outputs, detail::log_std_rows(log_std_, outputs.size(0)),
                                         rows.actions)
                : detail::categorical_terms(outputs, rows.actions, rows.masks);
  LossStatistics sums;
  const Tensor loss = detail::ppo_loss(rows, values, log_probs, entropy, options, sums);
  (loss * weight).backward();
  return sums;
}

void TorchPolicy::save(StateDict& state) const {
  for (const ParameterView& view : views_)
    state.append("policy/" + view.name,
                 std::span<const float>(parameters_).subspan(view.offset, view.size), view.shape);
  for (const auto& [name, tensor] : buffers_) {
    const std::span bytes(static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes());
    state.append(Array{"policy/buffers/" + name, dtype_of_tensor(name, tensor),
                       tensor.sizes().vec(), bytes});
  }
  if (options_.normalize_observations)
    observation_moments_.save(state, "policy/observation_moments");
  if (options_.normalize_rewards) return_moments_.save(state, "policy/return_moments");
}

void TorchPolicy::validate(const StateDict& state) const {
  for (const ParameterView& view : views_)
    state.checked("policy/" + view.name, Dtype::f32, view.shape);
  for (const auto& [name, tensor] : buffers_)
    state.checked("policy/buffers/" + name, dtype_of_tensor(name, tensor), tensor.sizes().vec());
  if (options_.normalize_observations)
    observation_moments_.validate(state, "policy/observation_moments");
  if (options_.normalize_rewards) return_moments_.validate(state, "policy/return_moments");
}

void TorchPolicy::load(const StateDict& state) {
  validate(state);
  for (const ParameterView& view : views_) {
    const Array* array = state.find("policy/" + view.name);
    std::memcpy(parameters_.data() + view.offset, array->bytes.data(), array->bytes.size());
  }
  for (auto& [name, tensor] : buffers_) {
    const Array* array = state.find("policy/buffers/" + name);
    std::memcpy(tensor.data_ptr(), array->bytes.data(), array->bytes.size());
  }
  if (options_.normalize_observations)
    observation_moments_.load(state, "policy/observation_moments");
  if (options_.normalize_rewards) return_moments_.load(state, "policy/return_moments");
}

}  // namespace

std::shared_ptr<Policy> make_torch_policy(const Spec& spec,
                                          const std::function<TorchNetwork()>& factory,
                                          const TorchPolicyOptions& options, std::uint64_t seed) {
  check(spec);
  if (!(options.log_std_init >= kMinLogStd && options.log_std_init <= kMaxLogStd))
    throw InvalidArgument("log_std_init must be in [-10, 5], got " +
                          std::to_string(options.log_std_init));
  if (std::isnan(options.clip_observation))
    throw InvalidArgument("clip_observation must be a number, got nan");
  return std::make_shared<TorchPolicy>(spec, build(factory, seed), options);
}

}  // namespace canter
