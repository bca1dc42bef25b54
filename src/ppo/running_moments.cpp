#include "canter/ppo/running_moments.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "canter/base/error.hpp"

namespace canter {

RunningMoments::RunningMoments(int size)
    : mean_(static_cast<std::size_t>(size)), m2_(static_cast<std::size_t>(size)) {}

double RunningMoments::variance(int i) const noexcept {
  return count_ < 2 ? 1.0 : m2_[static_cast<std::size_t>(i)] / count_;
}

void RunningMoments::add(std::span<const float> rows) noexcept {
  const std::size_t size = mean_.size();
  assert(size > 0 && rows.size() % size == 0);
  for (; !rows.empty(); rows = rows.subspan(size)) {
    const auto row = rows.first(size);
    // one infinity would spoil the moments for ever
    if (!std::ranges::all_of(row, [](float x) { return std::isfinite(x); })) continue;
    count_ += 1;
    const double inverse_count = 1.0 / count_;
    for (std::size_t i = 0; i < size; ++i) {
      const double x = static_cast<double>(row[i]), delta = x - mean_[i];
      mean_[i] += delta * inverse_count;
      m2_[i] += delta * (x - mean_[i]);
    }
  }
}

void RunningMoments::merge(const RunningMoments& other) noexcept {
  assert(other.size() == size());
  if (other.count_ == 0) return;
  if (count_ == 0) {
    *this = other;
    return;
  }
  // Chan et al. 1983, equation 2.1
  const double total = count_ + other.count_, share = other.count_ / total;
  for (std::size_t i = 0; i < mean_.size(); ++i) {
    const double delta = other.mean_[i] - mean_[i];
    mean_[i] += delta * share;
    m2_[i] += other.m2_[i] + delta * delta * count_ * share;
  }
  count_ = total;
}

void RunningMoments::clear() noexcept {
  count_ = 0;
  std::ranges::fill(mean_, 0.0);
  std::ranges::fill(m2_, 0.0);
}

void RunningMoments::normaliser(std::span<float> mean, std::span<float> inverse_std,
                                double epsilon) const noexcept {
  for (std::size_t i = 0; i < mean_.size(); ++i) {
    mean[i] = static_cast<float>(mean_[i]);
    const double variance_now = variance(static_cast<int>(i));
    inverse_std[i] =
        count_ > 0 ? static_cast<float>(1.0 / std::sqrt(variance_now + epsilon)) : 1.0f;
  }
}

void RunningMoments::save(StateDict& state, const std::string& prefix) const {
  const auto entries = static_cast<std::int64_t>(mean_.size());
  state.append(prefix + "/count", std::span<const double>(&count_, 1), {1});
  state.append(prefix + "/mean", std::span<const double>(mean_), {entries});
  state.append(prefix + "/m2", std::span<const double>(m2_), {entries});
}

void RunningMoments::validate(const StateDict& state, const std::string& prefix) const {
  const auto entries = static_cast<std::int64_t>(mean_.size());
  const double count = state.get<double>(prefix + "/count", {1})[0];
  if (!(count >= 0) || !std::isfinite(count))
    throw CheckpointError("array \"" + prefix + "/count\" must be >= 0, is " +
                          std::to_string(count));
  for (double x : state.get<double>(prefix + "/mean", {entries}))
    if (!std::isfinite(x)) throw CheckpointError("array \"" + prefix + "/mean\" is not finite");
  for (double x : state.get<double>(prefix + "/m2", {entries}))
    if (!(x >= 0) || !std::isfinite(x))
      throw CheckpointError("array \"" + prefix + "/m2\" must be >= 0 and finite");
}

void RunningMoments::load(const StateDict& state, const std::string& prefix) {
  validate(state, prefix);
  const auto entries = static_cast<std::int64_t>(mean_.size());
  count_ = state.get<double>(prefix + "/count", {1})[0];
  mean_ = state.get<double>(prefix + "/mean", {entries});
  m2_ = state.get<double>(prefix + "/m2", {entries});
}

void RunningMoments::pack(std::span<double> out) const noexcept {
  assert(out.size() == 1 + 2 * mean_.size());
  out[0] = count_;
  std::ranges::copy(mean_, out.begin() + 1);
  std::ranges::copy(m2_, out.begin() + 1 + size());
}

void RunningMoments::unpack(std::span<const double> in) noexcept {
  assert(in.size() == 1 + 2 * mean_.size());
  count_ = in[0];
  std::ranges::copy(in.subspan(1, mean_.size()), mean_.begin());
  std::ranges::copy(in.subspan(1 + mean_.size()), m2_.begin());
}

}  // namespace canter
