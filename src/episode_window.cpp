#include "episode_window.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "canter/base/error.hpp"

namespace canter::detail {
namespace {

constexpr std::int64_t kRows = EpisodeWindow::kSize;

}  // namespace

void EpisodeWindow::add(float episode_return, std::int32_t length) noexcept {
  const auto i = static_cast<std::size_t>(count_[0]) % kSize;
  returns_[i] = episode_return;
  lengths_[i] = length;
  ++count_[0];
}

std::size_t EpisodeWindow::size() const noexcept {
  return static_cast<std::size_t>(std::min<std::int64_t>(count_[0], kRows));
}

std::size_t EpisodeWindow::index(std::size_t k) const noexcept {
  return (static_cast<std::size_t>(count_[0]) - size() + k) % kSize;
}

EpisodeWindow::Summary EpisodeWindow::summary() const noexcept {
  const auto n = static_cast<double>(size());
  if (n == 0) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    return {nan, nan, nan};
  }
  double sum = 0, lengths = 0, squares = 0;
  for (std::size_t k = 0; k < size(); ++k) {
    sum += static_cast<double>(return_of(k));
    lengths += static_cast<double>(length_of(k));
  }
  for (std::size_t k = 0; k < size(); ++k) {
    const double difference = static_cast<double>(return_of(k)) - sum / n;
    squares += difference * difference;
  }
  return {sum / n, std::sqrt(squares / n), lengths / n};
}

void EpisodeWindow::save(StateDict& state) const {
  state.append<std::int64_t>("trainer/episode_count", count_, {1});
  state.append<float>("trainer/episode_returns", returns_, {kRows});
  state.append<std::int32_t>("trainer/episode_lengths", lengths_, {kRows});
}

void EpisodeWindow::validate(const StateDict& state) const {
  state.checked("trainer/episode_returns", Dtype::f32, {kRows});
  state.checked("trainer/episode_lengths", Dtype::i32, {kRows});
  if (state.get<std::int64_t>("trainer/episode_count", {1})[0] < 0)
    throw CheckpointError("array 'trainer/episode_count' is negative");
}

void EpisodeWindow::load(const StateDict& state) {
  validate(state);
  count_[0] = state.get<std::int64_t>("trainer/episode_count", {1})[0];
  const auto returns = state.get<float>("trainer/episode_returns", {kRows});
  const auto lengths = state.get<std::int32_t>("trainer/episode_lengths", {kRows});
  std::copy(returns.begin(), returns.end(), returns_.begin());
  std::copy(lengths.begin(), lengths.end(), lengths_.begin());
}

}  // namespace canter::detail
