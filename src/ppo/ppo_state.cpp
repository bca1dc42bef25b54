// Ppo's construction, checks, state and the agreement of ranks before the first step.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "canter/base/error.hpp"
#include "ppo/ppo_impl.hpp"

namespace canter {
namespace {

constexpr const char* kDiscountedReturns = "env/discounted_returns";

void check_range(const char* name, double value, bool is_inside, const char* range) {
  if (is_inside) return;
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  throw InvalidArgument(std::string(name) + " must be " + range + ", got " + text);
}

PpoOptions checked(const PpoOptions& o) {
  const auto check = [](const char* name, auto value, bool is_inside, const char* range) {
    check_range(name, static_cast<double>(value), is_inside, range);
  };
  check("horizon", o.horizon, o.horizon >= 1, ">= 1");
  check("num_epochs", o.num_epochs, o.num_epochs >= 1, ">= 1");
  check("num_minibatches", o.num_minibatches, o.num_minibatches >= 1, ">= 1");
  check("learning_rate", o.learning_rate, o.learning_rate >= 0 && std::isfinite(o.learning_rate),
        ">= 0 and finite");
  check("gamma", o.gamma, o.gamma >= 0 && o.gamma <= 1, "in [0, 1]");
  check("gae_lambda", o.gae_lambda, o.gae_lambda >= 0 && o.gae_lambda <= 1, "in [0, 1]");
  check("clip_range", o.clip_range, o.clip_range > 0, "> 0");
  check("clip_range_value", o.clip_range_value, std::isfinite(o.clip_range_value), "finite");
  check("entropy_coefficient", o.entropy_coefficient, std::isfinite(o.entropy_coefficient),
        "finite");
  check("value_coefficient", o.value_coefficient,
        o.value_coefficient >= 0 && std::isfinite(o.value_coefficient), ">= 0 and finite");
  check("max_grad_norm", o.max_grad_norm, !std::isnan(o.max_grad_norm), "a number");
  check("target_kl", o.target_kl, !std::isnan(o.target_kl), "a number");
  check("clip_reward", o.clip_reward, !std::isnan(o.clip_reward), "a number");
  check("adam_beta1", o.adam_beta1, o.adam_beta1 >= 0 && o.adam_beta1 < 1, "in [0, 1)");
  check("adam_beta2", o.adam_beta2, o.adam_beta2 >= 0 && o.adam_beta2 < 1, "in [0, 1)");
  check("adam_epsilon", o.adam_epsilon, o.adam_epsilon > 0 && std::isfinite(o.adam_epsilon),
        "> 0 and finite");
  return o;
}

void check_equal(const char* what, std::size_t value, std::size_t expected, const char* where) {
  if (value != expected)
    throw InvalidArgument(std::string(what) + " must be " + std::to_string(expected) + " (" +
                          where + "), got " + std::to_string(value));
}

// FNV-1a: equal parameters have equal hashes
std::uint64_t hash_of(std::span<const float> numbers) {
  std::uint64_t hash = 14695981039346656037u;
  for (const std::byte byte : std::as_bytes(numbers))
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211u;
  return hash;
}

void check_equal_parameters(const Policy& policy, Communicator& communicator) {
  const std::uint64_t hash = hash_of(policy.parameters());
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::as_bytes(std::span(&hash, 1)),
                          std::as_writable_bytes(std::span(hashes)));
  for (std::size_t rank = 1; rank < hashes.size(); ++rank)
    if (hashes[rank] != hashes[0])
      throw CommunicationError("rank " + std::to_string(communicator.rank()) +
                               ": update: the parameters of rank " + std::to_string(rank) +
                               " differ from those of rank 0; call Ppo::synchronize before the "
                               "first rollout");
}

std::string describe(const Array& array) {
  std::string text = array.name + " " + std::string(name_of(array.dtype)) + " [";
  for (std::size_t i = 0; i < array.shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(array.shape[i]);
  return text + "]\n";
}

std::string first_line_that_differs(const std::string& own, const std::string& other) {
  const auto mismatch = std::mismatch(own.begin(), own.end(), other.begin(), other.end());
  const auto line = [](const std::string& text, std::size_t at) {
    const std::size_t newline = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
    const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
    const std::string found = text.substr(begin, text.find('\n', begin) - begin);
    return found.empty() ? "nothing" : found;
  };
  const auto at = static_cast<std::size_t>(mismatch.first - own.begin());
  return line(own, at) + " where rank 0 has " + line(other, at);
}

// throws on every rank if one has other arrays than rank 0
void check_equal_arrays(const StateDict& state, Communicator& communicator) {
  std::string own;
  for (const Array& array : state.arrays()) own += describe(array);
  std::uint64_t size = own.size();
  communicator.broadcast(std::as_writable_bytes(std::span(&size, 1)), 0);
  std::string other = own;
  other.resize(size);
  communicator.broadcast(std::as_writable_bytes(std::span(other)), 0);

  using Text = std::array<char, 256>;
  Text message{};
  if (own != other)
    std::snprintf(message.data(), message.size(), "the policy of rank %d differs: %s",
                  communicator.rank(), first_line_that_differs(own, other).c_str());
  std::vector<Text> messages(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::as_bytes(std::span(message)),
                          std::as_writable_bytes(std::span(messages)));
  for (const Text& text : messages)
    if (text[0])
      throw CommunicationError("rank " + std::to_string(communicator.rank()) +
                               ": synchronize: " + text.data());
}

}  // namespace

Ppo::Impl::Impl(PpoOptions o, std::int64_t steps, std::uint64_t key, const Policy& policy)
    : options(checked(o)),
      total_steps(steps),
      seed(key),
      threads(make_single_thread()),
      adam(policy.parameters().size()),
      minibatches(o.num_epochs, o.num_minibatches) {}

void Ppo::Impl::begin(Rollout& rollout, Policy& policy, Communicator& communicator) {
  check_equal("the rollout's horizon", static_cast<std::size_t>(rollout.horizon()),
              static_cast<std::size_t>(options.horizon), "PpoOptions::horizon");
  check_equal("the rollout's observation_size",
              static_cast<std::size_t>(rollout.observation_size()),
              static_cast<std::size_t>(policy.spec().observation_size), "the policy's spec");
  check_equal("the number of parameters", policy.parameters().size(), adam.num_parameters(),
              "of the policy this Ppo was made for");
  if (options.recompute_advantages && !rollout.keeps_final_observations())
    throw InvalidArgument("recompute_advantages needs a rollout made with keep_final_observations");
  const auto& discounted_returns = reward_scaler.discounted_returns();
  if (!discounted_returns.empty())
    check_equal("the rollout's num_envs", static_cast<std::size_t>(rollout.num_envs()),
                discounted_returns.size(), "as before");
  scaled_rewards.resize(static_cast<std::size_t>(rollout.num_samples()));
  // whoever used the policy before, and an update that an exception ended, may have left some
  std::fill(policy.gradients().begin(), policy.gradients().end(), 0.0f);
  if (has_begun) return;
  if (communicator.size() > 1) check_equal_parameters(policy, communicator);
  has_begun = true;
}

Ppo::Ppo(PpoOptions options, std::int64_t total_steps, std::uint64_t seed, const Policy& policy)
    : impl_(std::make_unique<Impl>(options, total_steps, seed, policy)) {}

Ppo::~Ppo() = default;

const PpoOptions& Ppo::options() const noexcept {
  return impl_->options;
}

void Ppo::set_total_steps(std::int64_t total_steps) {
  impl_->total_steps = total_steps;
}

void Ppo::set_threads(std::shared_ptr<Threads> threads) {
  impl_->threads = threads ? std::move(threads) : make_single_thread();
}

void Ppo::synchronize(Policy& policy, Communicator& communicator) {
  if (communicator.size() == 1) return;
  StateDict own;
  policy.save(own);
  check_equal_arrays(own, communicator);

  // all arrays in one buffer, in their order
  std::vector<std::byte> bytes;
  for (const Array& array : own.arrays())
    bytes.insert(bytes.end(), array.bytes.begin(), array.bytes.end());
  communicator.broadcast(bytes, 0);
  StateDict from_root;
  std::size_t offset = 0;
  for (const Array& array : own.arrays()) {
    from_root.append(Array{array.name, array.dtype, array.shape,
                           std::span(bytes).subspan(offset, array.bytes.size())});
    offset += array.bytes.size();
  }
  policy.load(from_root);
}

void Ppo::save(StateDict& state) const {
  impl_->adam.save(state);
  state.append("ppo/iteration", std::span<const std::int64_t>(&impl_->iteration, 1), {1});
  const std::vector<double>& returns = impl_->reward_scaler.discounted_returns();
  state.append(kDiscountedReturns, std::span<const double>(returns),
               {static_cast<std::int64_t>(returns.size())});
}

void Ppo::validate(const StateDict& state) const {
  impl_->adam.validate(state);
  if (const auto iteration = state.get<std::int64_t>("ppo/iteration", {1})[0]; iteration < 0)
    throw CheckpointError("ppo/iteration must be >= 0, got " + std::to_string(iteration));
  // as many environments as there are here, or any number before the first update
  const Array* returns = state.find(kDiscountedReturns);
  auto size = static_cast<std::int64_t>(impl_->reward_scaler.discounted_returns().size());
  if (returns && returns->shape.size() == 1 && (size == 0 || returns->shape[0] == 0))
    size = returns->shape[0];
  state.checked(kDiscountedReturns, Dtype::f64, {size});
}

void Ppo::load(const StateDict& state) {
  validate(state);
  const Array* returns = state.find(kDiscountedReturns);
  std::vector<double> discounted_returns = state.get<double>(kDiscountedReturns, returns->shape);
  const std::int64_t iteration = state.get<std::int64_t>("ppo/iteration", {1})[0];
  impl_->adam.load(state);
  impl_->iteration = iteration;
  impl_->reward_scaler.discounted_returns() = std::move(discounted_returns);
}

}  // namespace canter
