#pragma once
// Running mean and variance per entry, in float64, mergeable: Chan, Golub, LeVeque (1983).

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "canter/base/state.hpp"

namespace canter {

/// Count, mean and sum of squared deviations of `size` entries.
class RunningMoments {
 public:
  explicit RunningMoments(int size = 0);

  int size() const noexcept { return static_cast<int>(mean_.size()); }
  double count() const noexcept { return count_; }
  std::span<const double> mean() const noexcept { return mean_; }
  /// Population variance of entry i; 1 while count < 2.
  double variance(int i) const noexcept;

  /// Adds float[num_rows, size], in row order; rows with a number that is not finite are left out.
  void add(std::span<const float> rows) noexcept;
  /// Merges another set of moments of the same size; order of merges is the caller's business.
  void merge(const RunningMoments& other) noexcept;
  void clear() noexcept;

  /// Writes mean[i] and 1 / sqrt(variance(i) + epsilon) as float32; 0 and 1 while count is 0.
  void normaliser(std::span<float> mean, std::span<float> inverse_std,
                  double epsilon = 1e-8) const noexcept;

  void save(StateDict& state, const std::string& prefix) const;
  void validate(const StateDict& state, const std::string& prefix) const;
  void load(const StateDict& state, const std::string& prefix);

  /// {count, mean..., m2...}: 1 + 2 * size doubles, for collectives.
  void pack(std::span<double> out) const noexcept;
  void unpack(std::span<const double> in) noexcept;

 private:
  double count_ = 0;
  std::vector<double> mean_, m2_;
};

}  // namespace canter
