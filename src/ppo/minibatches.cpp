#include "ppo/minibatches.hpp"

#include <algorithm>
#include <cmath>

#include "canter/base/rng.hpp"

namespace canter::detail {

Minibatches::Minibatches(int num_epochs, int num_minibatches)
    : num_epochs_(num_epochs),
      num_minibatches_(num_minibatches),
      sums_(static_cast<std::size_t>(num_epochs) * static_cast<std::size_t>(num_minibatches) + 2) {}

void Minibatches::shuffle(const AdvantageInput& rows, TruncationHandling truncation,
                          std::uint64_t seed, std::int64_t iteration) {
  // masked samples are not in the permutation at all
  const std::size_t num_samples = rows.rewards.size();
  kept_.reserve(num_samples);
  indices_.reserve(num_samples * static_cast<std::size_t>(num_epochs_));
  kept_.clear();
  for (std::size_t i = 0; i < num_samples; ++i)
    if (!is_masked(rows, truncation, i)) kept_.push_back(static_cast<std::int32_t>(i));

  indices_.resize(kept_.size() * static_cast<std::size_t>(num_epochs_));
  for (int epoch = 0; epoch < num_epochs_; ++epoch) {
    const auto order =
        std::span(indices_).subspan(static_cast<std::size_t>(epoch) * kept_.size(), kept_.size());
    Rng(seed, Stream::shuffle, static_cast<std::uint32_t>(epoch),
        static_cast<std::uint32_t>(iteration))
        .permutation(order);
    for (std::int32_t& index : order) index = kept_[static_cast<std::size_t>(index)];
  }
}

void Minibatches::gather_moments(std::span<const float> advantages, std::span<const float> returns,
                                 int first_epoch, Communicator& communicator) {
  const auto first = static_cast<std::size_t>(first_epoch * num_minibatches_);
  std::fill(sums_.begin() + static_cast<std::ptrdiff_t>(first), sums_.end(), Sums{});
  for (int epoch = first_epoch; epoch < num_epochs_; ++epoch)
    for (int minibatch = 0; minibatch < num_minibatches_; ++minibatch) {
      Sums& minibatch_sums = sums_[static_cast<std::size_t>(epoch * num_minibatches_ + minibatch)];
      for (const std::int32_t i : indices(epoch, minibatch))
        minibatch_sums.add(advantages[static_cast<std::size_t>(i)]);
    }
  Sums& all_advantages = sums_[sums_.size() - 2];
  Sums& all_returns = sums_[sums_.size() - 1];
  for (const std::int32_t i : kept_) {
    all_advantages.add(advantages[static_cast<std::size_t>(i)]);
    all_returns.add(returns[static_cast<std::size_t>(i)]);
  }
  static_assert(sizeof(Sums) == 3 * sizeof(double));
  communicator.all_reduce(std::span(&sums_[first].count, 3 * (sums_.size() - first)));
}

std::span<const std::int32_t> Minibatches::indices(int epoch, int minibatch) const noexcept {
  const std::size_t size = kept_.size(), count = static_cast<std::size_t>(num_minibatches_);
  const auto j = static_cast<std::size_t>(minibatch);
  const std::size_t begin = j * size / count, end = (j + 1) * size / count;
  return std::span(indices_).subspan(static_cast<std::size_t>(epoch) * size + begin, end - begin);
}

std::int64_t Minibatches::num_samples(int epoch, int minibatch) const noexcept {
  return static_cast<std::int64_t>(sums(epoch, minibatch).count);
}

float Minibatches::advantage_mean(int epoch, int minibatch) const noexcept {
  const Sums& s = sums(epoch, minibatch);
  return static_cast<float>(s.sum / std::max(s.count, 1.0));
}

float Minibatches::advantage_scale(int epoch, int minibatch) const noexcept {
  const Sums& s = sums(epoch, minibatch);
  const double deviations = s.sum_of_squared_deviations();
  // advantages that differ by rounding alone must not be blown up to noise
  if (deviations == 0) return 0;
  const double std = std::sqrt(deviations / std::max(s.count - 1, 1.0));
  return static_cast<float>(1 / (std + 1e-8));
}

double Minibatches::explained_variance() const noexcept {
  // returns - values are the advantages
  const double of_returns = sums_[sums_.size() - 1].sum_of_squared_deviations();
  const double of_errors = sums_[sums_.size() - 2].sum_of_squared_deviations();
  return of_returns > 0 ? 1 - of_errors / of_returns : 0;
}

void Minibatches::Sums::add(float x) noexcept {
  const double value = static_cast<double>(x);
  count += 1;
  sum += value;
  sum_of_squares += value * value;
}

double Minibatches::Sums::sum_of_squared_deviations() const noexcept {
  if (count < 2) return 0;
  // equal numbers may leave a rounding error: it must not look like a spread
  const double deviations = sum_of_squares - sum * sum / count;
  return deviations > 1e-14 * sum_of_squares ? deviations : 0;
}

}  // namespace canter::detail
