#include <algorithm>
#include <cassert>
#include <cmath>

#include "mlp_core.hpp"

namespace canter::detail {

/// One call of backward, as its units see it.
struct MlpPolicy::Minibatch {
  const SampleView& samples;
  std::span<const std::int32_t> indices;
  const LossOptions& options;
  float scale, weight;  ///< scale = weight / rows: turns sums into the mean
  int num_groups;       ///< slabs per network
  bool packs;           ///< units pack their network themselves

  /// Rows of a group: whole blocks, split evenly over the groups; depends on the size alone.
  std::span<const std::int32_t> group(int index) const {
    const auto rows = static_cast<std::int64_t>(indices.size());
    const std::int64_t blocks = (rows + kernels::kBlockRows - 1) / kernels::kBlockRows;
    const std::int64_t first = blocks * index / num_groups * kernels::kBlockRows;
    const std::int64_t end =
        std::min(rows, blocks * (index + 1) / num_groups * kernels::kBlockRows);
    return indices.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first));
  }
};

void MlpPolicy::check_samples(const SampleView& samples,
                              std::span<const std::int32_t> indices) const {
  const std::size_t n = samples.advantages.size();
  const auto check = [n](std::size_t size, std::size_t width, const char* name) {
    if (size != n * width)
      throw InvalidArgument("samples." + std::string(name) + " must hold " +
                            std::to_string(n * width) + " numbers, got " + std::to_string(size));
  };
  check(samples.observations.size(), static_cast<std::size_t>(spec_.observation_size),
        "observations");
  check(samples.actions.size(), static_cast<std::size_t>(spec_.action_size()), "actions");
  check(samples.log_probs.size(), 1, "log_probs");
  check(samples.values.size(), 1, "values");
  check(samples.returns.size(), 1, "returns");
  if (!samples.action_masks.empty())
    check(samples.action_masks.size(), static_cast<std::size_t>(num_outputs()), "action_masks");
  for (const std::int32_t i : indices)
    if (i < 0 || static_cast<std::size_t>(i) >= n)
      throw InvalidArgument("indices must be in [0, " + std::to_string(n) + "), got " +
                            std::to_string(i));
  if (!categorical_) return;
  for (const std::int32_t i : indices) {
    const float action = samples.actions[static_cast<std::size_t>(i)];
    if (!(action >= 0 && action < static_cast<float>(num_outputs())))
      throw InvalidArgument("samples.actions must be one of 0 .. " +
                            std::to_string(num_outputs() - 1) + ", got " + std::to_string(action));
  }
}

LossStatistics MlpPolicy::backward(const SampleView& samples, std::span<const std::int32_t> indices,
                                   const LossOptions& options, float weight) {
  check_samples(samples, indices);
  if (indices.empty()) return {};
  refresh_normaliser();
  refresh_log_std();

  const int blocks = static_cast<int>((indices.size() + kernels::kBlockRows - 1) /
                                      static_cast<std::size_t>(kernels::kBlockRows));
  // two blocks share a slab: with fewer rows per slab, summing the slabs would show
  const int num_groups = std::min((blocks + 1) / 2, kMaxSlabs / num_networks());
  // one unit per network: it packs its own weights and adds its own gradient, in one section
  const bool alone = num_groups == 1;
  if (!alone) pack_all();
  const Minibatch minibatch{
      samples, indices,    options, weight / static_cast<float>(indices.size()),
      weight,  num_groups, !packed_};
  for_each(num_groups * num_networks(), [&](int unit) {
    const int network = unit % num_networks();
    run_unit(minibatch, network, unit / num_networks());
    if (alone) add_slabs(minibatch, network);
  });
  packed_ = true;
  if (!alone) for_each(num_networks(), [&](int network) { add_slabs(minibatch, network); });

  LossStatistics sum;
  for (int i = 0; i < num_groups * num_networks(); ++i) {
    const LossStatistics& part = partial_[static_cast<std::size_t>(i)];
    sum.policy_loss += part.policy_loss;
    sum.value_loss += part.value_loss;
    sum.entropy += part.entropy;
    sum.approx_kl += part.approx_kl;
    sum.clip_fraction += part.clip_fraction;
  }
  sum.num_samples = static_cast<std::int64_t>(indices.size());
  return sum;
}

float* MlpPolicy::slab(int network, int group) noexcept {
  const int index = network * (kMaxSlabs / num_networks()) + group;
  return slabs_.data() + static_cast<std::size_t>(index) * slab_stride_;
}

void MlpPolicy::run_unit(const Minibatch& minibatch, int index, int group) noexcept {
  MlpNetwork& network = networks_[static_cast<std::size_t>(index)];
  if (minibatch.packs) network.pack(parameters_.data());
  const bool acts = index == 0, values = index == num_networks() - 1;
  const Workspace workspace(*this);
  float* slab_now = slab(index, group);
  float* log_std_sums = slab_now + slab_stride_ - kernels::padded(num_outputs());
  std::fill_n(log_std_sums, kernels::padded(num_outputs()), 0.0f);

  // kept on this thread's stack: the slots of two threads share cache lines
  LossStatistics statistics;
  auto left = minibatch.group(group);
  for (bool first = true; !left.empty(); first = false) {
    const auto rows = left.first(std::min<std::size_t>(left.size(), kernels::kBlockRows));
    left = left.subspan(rows.size());
    const int num_rows = static_cast<int>(rows.size());
    normalise(minibatch.samples.observations, rows.data(), 0, num_rows, workspace.data(),
              network.input_stride());
    const float* outputs = network.forward(workspace.data(), num_rows);
    float* gradient = network.output_gradient(workspace.data());
    const int stride = network.output_stride();
    if (acts) actor_loss(minibatch, rows, outputs, gradient, stride, log_std_sums, statistics);
    if (values) {
      const int last = network.outputs() - 1;
      value_loss(minibatch, rows, outputs + last, gradient + last, stride, statistics);
    }
    network.backward(workspace.data(), num_rows, !first, slab_now,
                     minibatch.num_groups == 1 ? gradients_.data() : nullptr);
  }
  const int part = group * num_networks() + index;
  partial_[static_cast<std::size_t>(part)] = statistics;
}

void MlpPolicy::add_slabs(const Minibatch& minibatch, int index) noexcept {
  const MlpNetwork& network = networks_[static_cast<std::size_t>(index)];
  const float* slabs = slab(index, 0);
  network.add_gradient(slabs, minibatch.num_groups, slab_stride_, gradients_.data());
  if (index > 0 || !gaussian_) return;
  const int width = kernels::padded(num_outputs());
  std::fill_n(log_std_sums_.data(), width, 0.0f);
  kernels::in_use().add_slabs(slabs + slab_stride_ - width, minibatch.num_groups,
                              static_cast<long>(slab_stride_), width, log_std_sums_.data());
  // every sample has the same entropy
  gaussian_->add_log_std_gradient(log_std_sums_.data(),
                                  -minibatch.options.entropy_coefficient * minibatch.weight,
                                  gradients_.data() + log_std_);
}

// clipped surrogate of Schulman et al. 2017, equation 7, and the entropy bonus
void MlpPolicy::actor_loss(const Minibatch& minibatch, std::span<const std::int32_t> rows,
                           const float* outputs, float* gradient, int stride, float* log_std_sums,
                           LossStatistics& statistics) const noexcept {
  const LossOptions& options = minibatch.options;
  const SampleView& samples = minibatch.samples;
  const int num_rows = static_cast<int>(rows.size());
  float log_ratios[kernels::kBlockRows] = {}, ratios[kernels::kBlockRows];
  if (gaussian_)
    gaussian_->log_probs(outputs, stride, samples.actions.data(), rows.data(), 0, num_rows,
                         gradient, log_ratios);
  else
    categorical_log_probs(samples, rows, outputs, gradient, stride, log_ratios);
  for (std::size_t r = 0; r < rows.size(); ++r)
    log_ratios[r] -= samples.log_probs[static_cast<std::size_t>(rows[r])];
  std::copy_n(log_ratios, kernels::kBlockRows, ratios);
  kernels::in_use().exponentials(ratios, num_rows);

  float by_log_prob[kernels::kBlockRows];
  const float low = 1.0f - options.clip_range, high = 1.0f + options.clip_range;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const float ratio = ratios[r], raw = samples.advantages[static_cast<std::size_t>(rows[r])];
    const float advantage = options.normalize_advantages
                                ? (raw - options.advantage_mean) * options.advantage_scale
                                : raw;
    const float plain = -advantage * ratio, clipped = -advantage * std::clamp(ratio, low, high);
    const bool uses_clipped = clipped > plain;
    // the clipped branch only wins outside of the range, where it is flat
    by_log_prob[r] = uses_clipped ? 0.0f : plain * minibatch.scale;
    statistics.policy_loss += static_cast<double>(uses_clipped ? clipped : plain);
    statistics.approx_kl += static_cast<double>((ratio - 1.0f) - log_ratios[r]);
    statistics.clip_fraction += std::abs(ratio - 1.0f) > options.clip_range ? 1.0 : 0.0;
  }
  if (gaussian_) {
    statistics.entropy += static_cast<double>(gaussian_->entropy()) * num_rows;
    gaussian_->gradient(by_log_prob, num_rows, gradient, stride, log_std_sums);
    return;
  }
  for (std::size_t r = 0; r < rows.size(); ++r, gradient += stride) {
    statistics.entropy += static_cast<double>(categorical_->entropy(gradient));
    categorical_->gradient(by_log_prob[r], -options.entropy_coefficient * minibatch.scale,
                           samples.actions.data() + rows[r], gradient);
  }
}

void MlpPolicy::categorical_log_probs(const SampleView& samples, std::span<const std::int32_t> rows,
                                      const float* outputs, float* probabilities, int stride,
                                      float* log_probs) const noexcept {
  const auto count = static_cast<std::size_t>(num_outputs());
  for (std::size_t r = 0; r < rows.size(); ++r, outputs += stride, probabilities += stride) {
    const auto at = static_cast<std::size_t>(rows[r]);
    const std::uint8_t* mask =
        samples.action_masks.empty() ? nullptr : samples.action_masks.data() + at * count;
    log_probs[r] =
        categorical_->log_prob(outputs, mask, samples.actions.data() + at, probabilities);
  }
}

// 0.5 max((v - R)^2, (v_clipped - R)^2), or 0.5 (v - R)^2
void MlpPolicy::value_loss(const Minibatch& minibatch, std::span<const std::int32_t> rows,
                           const float* outputs, float* gradient, int stride,
                           LossStatistics& statistics) const noexcept {
  const LossOptions& options = minibatch.options;
  const SampleView& samples = minibatch.samples;
  const float range = options.clip_range_value;
  const float scale = options.value_coefficient * minibatch.scale;
  for (const std::int32_t row : rows) {
    const auto at = static_cast<std::size_t>(row);
    const float old_value = samples.values[at], error = *outputs - samples.returns[at];
    float loss = error * error, slope = error;
    if (range > 0) {
      const float change = *outputs - old_value;
      const float clipped_error =
          old_value + std::clamp(change, -range, range) - samples.returns[at];
      // within the range both errors are the same and so is their slope; a NaN counts as larger
      if (!(clipped_error * clipped_error <= loss)) {
        loss = clipped_error * clipped_error;
        slope = std::abs(change) <= range ? clipped_error : 0.0f;
      }
    }
    *gradient = slope * scale;
    statistics.value_loss += 0.5 * static_cast<double>(loss);
    outputs += stride;
    gradient += stride;
  }
}

}  // namespace canter::detail
