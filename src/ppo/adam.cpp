#include "ppo/adam.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "canter/base/error.hpp"
#include "ppo/kernels_adam.hpp"

namespace canter::detail {
namespace {

// sums are taken per chunk and then in the order of the chunks, whoever took them
constexpr std::size_t kChunk = 1024;
// smaller arrays are done sooner than a second thread has joined; from here on each thread looks at
// the part that it also updates, which stays in its cache
constexpr std::size_t kParallelFrom = 8 * kChunk;

std::size_t num_chunks(std::size_t n) {
  return (n + kChunk - 1) / kChunk;
}

// runs body(first, last chunk) over contiguous ranges, one per thread
template <class Body>
void for_chunks(std::size_t n, Threads& threads, Body&& body) {
  const std::size_t chunks = num_chunks(n);
  const std::size_t parts =
      n < kParallelFrom ? 1 : std::min(chunks, static_cast<std::size_t>(threads.size()));
  if (parts <= 1) return body(std::size_t{0}, chunks);
  threads.parallel_for(static_cast<int>(parts), [&](int i) {
    const auto part = static_cast<std::size_t>(i);
    body(part * chunks / parts, (part + 1) * chunks / parts);
  });
}

}  // namespace

Adam::Adam(std::size_t num_parameters)
    : first_moments_(num_parameters),
      second_moments_(num_parameters),
      chunk_sums_(num_chunks(num_parameters)) {}

double Adam::norm(std::span<const float> gradients, Threads& threads) {
  for_chunks(gradients.size(), threads, [&](std::size_t first, std::size_t last) {
    for (std::size_t c = first; c < last; ++c) {
      const std::size_t begin = c * kChunk, end = std::min(begin + kChunk, gradients.size());
      chunk_sums_[c] = kernels::sum_of_squares(gradients.data() + begin, end - begin);
    }
  });
  double sum = 0;
  for (const double chunk_sum : chunk_sums_) sum += chunk_sum;
  return std::sqrt(sum);
}

void Adam::step(std::span<float> parameters, std::span<float> gradients, float gradient_scale,
                const AdamOptions& options, Threads& threads) {
  ++num_steps_;
  const double t = static_cast<double>(num_steps_);
  const kernels::AdamStep step{
      .gradient_scale = gradient_scale,
      .beta1 = options.beta1,
      .beta2 = options.beta2,
      .step_size = static_cast<float>(options.learning_rate /
                                      (1 - std::pow(static_cast<double>(options.beta1), t))),
      .inverse_bias2 =
          static_cast<float>(1 / std::sqrt(1 - std::pow(static_cast<double>(options.beta2), t))),
      .epsilon = options.epsilon};
  for_chunks(parameters.size(), threads, [&](std::size_t first, std::size_t last) {
    const std::size_t begin = first * kChunk, end = std::min(last * kChunk, parameters.size());
    kernels::adam_step(parameters.data() + begin, gradients.data() + begin,
                       first_moments_.data() + begin, second_moments_.data() + begin, end - begin,
                       step);
  });
}

void Adam::save(StateDict& state) const {
  const auto size = static_cast<std::int64_t>(num_parameters());
  state.append("ppo/adam/first_moments", std::span<const float>(first_moments_), {size});
  state.append("ppo/adam/second_moments", std::span<const float>(second_moments_), {size});
  state.append("ppo/adam/num_steps", std::span<const std::int64_t>(&num_steps_, 1), {1});
}

void Adam::validate(const StateDict& state) const {
  const auto size = static_cast<std::int64_t>(num_parameters());
  state.checked("ppo/adam/first_moments", Dtype::f32, {size});
  state.checked("ppo/adam/second_moments", Dtype::f32, {size});
  if (const std::int64_t steps = state.get<std::int64_t>("ppo/adam/num_steps", {1})[0]; steps < 0)
    throw CheckpointError("ppo/adam/num_steps must be >= 0, got " + std::to_string(steps));
}

void Adam::load(const StateDict& state) {
  validate(state);
  const auto size = static_cast<std::int64_t>(num_parameters());
  first_moments_ = state.get<float>("ppo/adam/first_moments", {size});
  second_moments_ = state.get<float>("ppo/adam/second_moments", {size});
  num_steps_ = state.get<std::int64_t>("ppo/adam/num_steps", {1})[0];
}

}  // namespace canter::detail
