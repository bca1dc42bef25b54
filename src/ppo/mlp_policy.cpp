#include "canter/ppo/mlp_policy.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "base/memory.hpp"
#include "mlp_core.hpp"

namespace canter {
namespace {

void check_option(bool good, std::string_view name, const std::string& value,
                  std::string_view expected) {
  if (!good)
    throw InvalidArgument(std::string(name) + " must be " + std::string(expected) + ", got " +
                          value);
}

void check_options(const MlpPolicyOptions& options) {
  for (int size : options.hidden)
    check_option(size >= 1 && size <= 65536, "hidden", std::to_string(size), "in [1, 65536]");
  check_option(options.log_std_init >= kMinLogStd && options.log_std_init <= kMaxLogStd,
               "log_std_init", std::to_string(options.log_std_init), "in [-10, 5]");
  check_option(std::isfinite(options.policy_gain), "policy_gain",
               std::to_string(options.policy_gain), "finite");
  check_option(!std::isnan(options.clip_observation), "clip_observation",
               std::to_string(options.clip_observation), "a number");
}

}  // namespace

std::shared_ptr<Policy> make_mlp_policy(const Spec& spec, const MlpPolicyOptions& options,
                                        std::uint64_t seed) {
  kernel_name();
  check(spec);
  check_option(spec.observation_size >= 1 && spec.observation_size <= 65536, "observation_size",
               std::to_string(spec.observation_size), "in [1, 65536]");
  check_options(options);
  return std::make_shared<detail::MlpPolicy>(spec, options, seed);
}

const MlpPolicyOptions& mlp_options(const Policy& policy) {
  const auto* mlp = dynamic_cast<const detail::MlpPolicy*>(&policy);
  if (!mlp)
    throw InvalidArgument("expected a policy of kind \"mlp\", got \"" + policy.kind() + '"');
  return mlp->options();
}

namespace detail {

MlpPolicy::MlpPolicy(const Spec& spec, const MlpPolicyOptions& options, std::uint64_t seed)
    : spec_(spec),
      options_(options),
      observation_moments_(options.normalize_observations ? spec.observation_size : 0),
      return_moments_(options.normalize_rewards ? 1 : 0),
      clip_(std::numeric_limits<float>::infinity()) {
  if (const Box* box = std::get_if<Box>(&spec.action))
    gaussian_.emplace(box->size);
  else
    categorical_.emplace(std::get<Discrete>(spec.action).count);
  lay_out();
  initialise(seed);

  const auto padding = static_cast<std::size_t>(kernels::padded(spec.observation_size));
  mean_ = FloatBuffer(padding);
  inverse_std_ = FloatBuffer(padding);
  std::fill_n(inverse_std_.data(), spec.observation_size, 1.0f);
  normaliser_source_.resize(1 + 2 * static_cast<std::size_t>(observation_moments_.size()));
  normaliser_now_ = normaliser_source_;

  std::size_t slab = 0;
  for (const MlpNetwork& network : networks_) slab = std::max(slab, network.slab_size());
  // behind the layers of a slab: the gradient of log_std
  slab_stride_ = slab + static_cast<std::size_t>(kernels::padded(num_outputs()));
  slabs_ = FloatBuffer(kMaxSlabs * slab_stride_);
  log_std_sums_ = FloatBuffer(static_cast<std::size_t>(kernels::padded(num_outputs())));
  set_threads(nullptr);
}

int MlpPolicy::num_outputs() const noexcept {
  return gaussian_ ? spec_.action_size() : std::get<Discrete>(spec_.action).count;
}

std::size_t MlpPolicy::add_view(std::string name, std::vector<std::int64_t> shape) {
  std::size_t size = 1;
  for (std::int64_t n : shape) size *= static_cast<std::size_t>(n);
  if (size > (std::size_t{1} << 30))
    throw InvalidArgument("tensor " + name + " would hold more than 2^30 numbers");
  const std::size_t offset = num_parameters_;
  views_.push_back({std::move(name), std::move(shape), offset, size});
  num_parameters_ += size;
  return offset;
}

LayerPart MlpPolicy::add_part(const std::string& name, int first, int rows, int columns) {
  const std::size_t weight = add_view(name + ".weight", {rows, columns});
  return {first, rows, weight, add_view(name + ".bias", {rows})};
}

void MlpPolicy::add_chain(MlpNetwork& network, const std::string& name) {
  int inputs = spec_.observation_size;
  for (std::size_t i = 0; i < options_.hidden.size(); ++i) {
    const int outputs = options_.hidden[i];
    network.add_layer({add_part(name + '.' + std::to_string(i), 0, outputs, inputs)});
    inputs = outputs;
  }
}

void MlpPolicy::lay_out() {
  const auto nonlinearity = static_cast<int>(options_.activation);
  const int inputs = options_.hidden.empty() ? spec_.observation_size : options_.hidden.back();
  const std::string head = '.' + std::to_string(options_.hidden.size());
  if (options_.shared_trunk) {
    MlpNetwork& trunk = networks_.emplace_back(spec_.observation_size, nonlinearity);
    add_chain(trunk, "trunk");
    const LayerPart actor = add_part("actor", 0, num_outputs(), inputs);
    trunk.add_layer({actor, add_part("critic", num_outputs(), 1, inputs)});
  } else {
    for (const char* name : {"actor", "critic"}) {
      MlpNetwork& network = networks_.emplace_back(spec_.observation_size, nonlinearity);
      add_chain(network, name);
      const int outputs = networks_.size() == 1 ? num_outputs() : 1;
      network.add_layer({add_part(name + head, 0, outputs, inputs)});
    }
  }
  // with the gradient and what an optimiser keeps: four floats per parameter
  check_memory("a policy of " + std::to_string(num_parameters_) + " parameters",
               4.0 * sizeof(float) * static_cast<double>(num_parameters_));
  for (MlpNetwork& network : networks_) workspace_size_ = network.finish(workspace_size_);
  if (gaussian_) log_std_ = add_view("log_std", {num_outputs()});
  parameters_ = FloatBuffer(num_parameters_);
  gradients_ = FloatBuffer(num_parameters_);
}

void MlpPolicy::initialise(std::uint64_t seed) {
  const std::string head =
      options_.shared_trunk ? "" : '.' + std::to_string(options_.hidden.size());
  std::uint32_t layer = 0;
  for (const ParameterView& view : views_) {
    if (view.shape.size() != 2) continue;
    const double gain = view.name == "actor" + head + ".weight"    ? double{options_.policy_gain}
                        : view.name == "critic" + head + ".weight" ? 1.0
                                                                   : std::numbers::sqrt2;
    initialise_orthogonal(parameters().subspan(view.offset, view.size),
                          static_cast<int>(view.shape[0]), static_cast<int>(view.shape[1]), gain,
                          Rng(seed, Stream::initialisation, layer++, 0));
  }
  if (gaussian_) std::fill_n(parameters_.data() + log_std_, num_outputs(), options_.log_std_init);
}

void MlpPolicy::set_threads(std::shared_ptr<Threads> threads) {
  threads_ = std::move(threads);
  const int count = std::clamp(threads_ ? threads_->size() : 1, 1, kMaxSlabs);
  while (workspaces_.size() < static_cast<std::size_t>(count))
    workspaces_.emplace_back(workspace_size_);
  free_workspaces_ = (1u << workspaces_.size()) - 1;
}

MlpPolicy::Workspace::Workspace(MlpPolicy& policy) noexcept : policy_(policy) {
  // never empty: bodies that run at once are as many as threads, or kMaxSlabs
  std::uint32_t free = policy.free_workspaces_.load(std::memory_order_acquire);
  do {
    index_ = static_cast<std::size_t>(std::countr_zero(free));
  } while (!policy.free_workspaces_.compare_exchange_weak(free, free & (free - 1),
                                                          std::memory_order_acquire));
}

void MlpPolicy::refresh_normaliser() {
  if (!options_.normalize_observations) return;
  // others may write the moments at any time between calls; equal bytes mean nothing to do
  observation_moments_.pack(normaliser_now_);
  if (std::ranges::equal(normaliser_now_, normaliser_source_)) return;
  std::swap(normaliser_now_, normaliser_source_);
  const auto size = static_cast<std::size_t>(spec_.observation_size);
  observation_moments_.normaliser({mean_.data(), size}, {inverse_std_.data(), size});
  const bool clips = observation_moments_.count() > 0 && options_.clip_observation > 0;
  clip_ = clips ? options_.clip_observation : std::numeric_limits<float>::infinity();
}

void MlpPolicy::refresh_log_std() noexcept {
  if (gaussian_) gaussian_->set_log_std(parameters_.data() + log_std_);
}

void MlpPolicy::pack_all() {
  if (packed_) return;
  for_each(num_networks(),
           [this](int i) { networks_[static_cast<std::size_t>(i)].pack(parameters_.data()); });
  packed_ = true;
}

void MlpPolicy::normalise(std::span<const float> observations, const std::int32_t* indices,
                          int first, int rows, float* out, int stride) const noexcept {
  kernels::in_use().normalise(observations.data(), indices, first, rows, spec_.observation_size,
                              mean_.data(), inverse_std_.data(), clip_, out, stride);
}

void MlpPolicy::save(StateDict& state) const {
  for (const ParameterView& view : views_)
    state.append("policy/" + view.name, parameters().subspan(view.offset, view.size), view.shape);
  if (options_.normalize_observations)
    observation_moments_.save(state, "policy/observation_moments");
  if (options_.normalize_rewards) return_moments_.save(state, "policy/return_moments");
}

void MlpPolicy::validate(const StateDict& state) const {
  for (const ParameterView& view : views_)
    state.checked("policy/" + view.name, Dtype::f32, view.shape);
  if (options_.normalize_observations)
    observation_moments_.validate(state, "policy/observation_moments");
  if (options_.normalize_rewards) return_moments_.validate(state, "policy/return_moments");
}

void MlpPolicy::load(const StateDict& state) {
  validate(state);
  for (const ParameterView& view : views_) {
    const Array* array = state.find("policy/" + view.name);
    std::memcpy(parameters_.data() + view.offset, array->bytes.data(), array->bytes.size());
  }
  if (options_.normalize_observations)
    observation_moments_.load(state, "policy/observation_moments");
  if (options_.normalize_rewards) return_moments_.load(state, "policy/return_moments");
  packed_ = false;
}

}  // namespace detail
}  // namespace canter
