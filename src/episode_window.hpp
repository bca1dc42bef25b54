#pragma once
// The last 100 episodes: what "the return" of a training run means.

#include <array>
#include <cstdint>

#include "canter/base/state.hpp"

namespace canter::detail {

/// Returns and lengths of the latest episodes, in a ring. Allocates nothing.
class EpisodeWindow {
 public:
  static constexpr std::size_t kSize = 100;

  void add(float episode_return, std::int32_t length) noexcept;
  void clear() noexcept { *this = EpisodeWindow(); }

  /// Episodes ever added.
  std::int64_t count() const noexcept { return count_[0]; }
  /// Episodes held, and the k-th oldest of them.
  std::size_t size() const noexcept;
  float return_of(std::size_t k) const noexcept { return returns_[index(k)]; }
  std::int32_t length_of(std::size_t k) const noexcept { return lengths_[index(k)]; }

  /// Mean and population standard deviation of the returns, mean length; NaN while empty.
  struct Summary {
    double return_mean, return_std, length_mean;
  };
  Summary summary() const noexcept;

  void save(StateDict& state) const;
  void validate(const StateDict& state) const;
  void load(const StateDict& state);

 private:
  std::size_t index(std::size_t k) const noexcept;

  std::array<std::int64_t, 1> count_{};  // an array, so that a dictionary can view it
  std::array<float, kSize> returns_{};
  std::array<std::int32_t, kSize> lengths_{};
};

}  // namespace canter::detail
