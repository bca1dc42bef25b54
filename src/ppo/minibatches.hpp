#pragma once
// Which samples form which minibatch, and the moments of their advantages over all ranks.

#include <cstdint>
#include <span>
#include <vector>

#include "canter/ppo/advantages.hpp"
#include "canter/sync/communicator.hpp"

namespace canter::detail {

/// The minibatches of all epochs of one update. Every sample that is not masked is in exactly one
/// minibatch of each epoch; on one rank their sizes differ by at most one. With fewer samples than
/// minibatches some are empty.
class Minibatches {
 public:
  Minibatches(int num_epochs, int num_minibatches);

  /// Orders the samples of all epochs: permutations from Rng(seed, Stream::shuffle, epoch,
  /// iteration).
  void shuffle(const AdvantageInput& rows, TruncationHandling truncation, std::uint64_t seed,
               std::int64_t iteration);
  /// Sums counts and moments of the advantages of every minibatch from `first_epoch` on, and of the
  /// returns, over all ranks: one collective.
  void gather_moments(std::span<const float> advantages, std::span<const float> returns,
                      int first_epoch, Communicator& communicator);

  /// This rank's samples of a minibatch.
  std::span<const std::int32_t> indices(int epoch, int minibatch) const noexcept;
  /// Samples of all ranks.
  std::int64_t num_samples(int epoch, int minibatch) const noexcept;
  float advantage_mean(int epoch, int minibatch) const noexcept;
  /// 1 / (std + 1e-8), std with n - 1; 0 for a single sample, and for samples that are equal but
  /// for rounding.
  float advantage_scale(int epoch, int minibatch) const noexcept;
  /// 1 - Var(returns - values) / Var(returns) over all ranks; 0 if the returns do not vary.
  double explained_variance() const noexcept;

 private:
  struct Sums {
    double count = 0, sum = 0, sum_of_squares = 0;
    void add(float x) noexcept;
    double sum_of_squared_deviations() const noexcept;
  };
  const Sums& sums(int epoch, int minibatch) const noexcept {
    return sums_[static_cast<std::size_t>(epoch * num_minibatches_ + minibatch)];
  }

  int num_epochs_, num_minibatches_;
  std::vector<std::int32_t> kept_;     // samples that are not masked, ascending
  std::vector<std::int32_t> indices_;  // int32[num_epochs, kept]
  std::vector<Sums> sums_;  // [num_epochs, num_minibatches], then advantages, then returns
};

}  // namespace canter::detail
