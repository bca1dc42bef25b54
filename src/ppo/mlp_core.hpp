#pragma once
// MlpPolicy as its sources share it: see include/canter/ppo/mlp_policy.hpp for what it promises.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "canter/base/error.hpp"
#include "canter/ppo/mlp_policy.hpp"
#include "distribution.hpp"
#include "mlp_network.hpp"

namespace canter::detail {

/// Most gradient slabs per minibatch; which rows a slab sums depends on the minibatch size alone.
constexpr int kMaxSlabs = 16;

/// Fills weight float[rows, columns] with a random (semi-)orthogonal matrix times gain.
void initialise_orthogonal(std::span<float> weight, int rows, int columns, double gain, Rng rng);

class MlpPolicy final : public Policy {
 public:
  MlpPolicy(const Spec& spec, const MlpPolicyOptions& options, std::uint64_t seed);

  const MlpPolicyOptions& options() const noexcept { return options_; }

  const Spec& spec() const noexcept override { return spec_; }
  std::string kind() const override { return "mlp"; }

  void act(const ActInput& input, const ActOutput& output) override;
  void value(std::span<const float> observations, std::span<float> values) override;
  LossStatistics backward(const SampleView& samples, std::span<const std::int32_t> indices,
                          const LossOptions& options, float weight) override;

  std::span<float> parameters() noexcept override { return {parameters_.data(), num_parameters_}; }
  std::span<const float> parameters() const noexcept override {
    return {parameters_.data(), num_parameters_};
  }
  std::span<float> gradients() noexcept override { return {gradients_.data(), num_parameters_}; }
  std::vector<ParameterView> parameter_views() const override { return views_; }
  void parameters_changed() override { packed_ = false; }

  RunningMoments* observation_moments() noexcept override {
    return options_.normalize_observations ? &observation_moments_ : nullptr;
  }
  RunningMoments* return_moments() noexcept override {
    return options_.normalize_rewards ? &return_moments_ : nullptr;
  }

  void set_threads(std::shared_ptr<Threads> threads) override;

  void save(StateDict& state) const override;
  void validate(const StateDict& state) const override;
  void load(const StateDict& state) override;

 private:
  struct Minibatch;
  class Workspace;

  std::size_t add_view(std::string name, std::vector<std::int64_t> shape);
  LayerPart add_part(const std::string& name, int first, int rows, int columns);
  void add_chain(MlpNetwork& network, const std::string& name);
  void lay_out();
  void initialise(std::uint64_t seed);

  int num_networks() const noexcept { return static_cast<int>(networks_.size()); }
  int num_outputs() const noexcept;
  void refresh_normaliser();
  void refresh_log_std() noexcept;
  void pack_all();
  void normalise(std::span<const float> observations, const std::int32_t* indices, int first,
                 int rows, float* out, int stride) const noexcept;
  template <class Body>
  void for_each(int count, Body&& body);
  template <class Body>
  void for_each_block(std::size_t rows, Body&& body);

  void act_rows(const ActInput& input, const ActOutput& output, int first, int rows);
  void gaussian_rows(const ActInput& input, const ActOutput& output, int first, int rows,
                     const float* outputs, float* scratch) const noexcept;
  void categorical_rows(const ActInput& input, const ActOutput& output, int first, int rows,
                        const float* outputs, float* scratch) const noexcept;
  void copy_values(const float* outputs, int first, int rows,
                   std::span<float> values) const noexcept;
  void check_masks(std::span<const std::uint8_t> masks, std::size_t rows) const;
  void check_samples(const SampleView& samples, std::span<const std::int32_t> indices) const;
  float* slab(int network, int group) noexcept;
  void run_unit(const Minibatch& minibatch, int network, int group) noexcept;
  void add_slabs(const Minibatch& minibatch, int network) noexcept;
  void actor_loss(const Minibatch& minibatch, std::span<const std::int32_t> rows,
                  const float* outputs, float* gradient, int stride, float* log_std_sums,
                  LossStatistics& statistics) const noexcept;
  void categorical_log_probs(const SampleView& samples, std::span<const std::int32_t> rows,
                             const float* outputs, float* probabilities, int stride,
                             float* log_probs) const noexcept;
  void value_loss(const Minibatch& minibatch, std::span<const std::int32_t> rows,
                  const float* outputs, float* gradient, int stride,
                  LossStatistics& statistics) const noexcept;

  Spec spec_;
  MlpPolicyOptions options_;
  std::vector<ParameterView> views_;
  std::size_t num_parameters_ = 0;
  std::size_t log_std_ = 0;  ///< its offset in parameters_
  FloatBuffer parameters_, gradients_;

  /// separate: actor, critic; shared trunk: one network whose last output is the value
  std::vector<MlpNetwork> networks_;
  std::optional<Gaussian> gaussian_;
  std::optional<Categorical> categorical_;
  bool packed_ = false;

  RunningMoments observation_moments_, return_moments_;
  std::vector<double> normaliser_source_,
      normaliser_now_;  ///< packed moments the floats were made of
  FloatBuffer mean_, inverse_std_;
  float clip_;

  std::shared_ptr<Threads> threads_;
  std::vector<FloatBuffer> workspaces_;  ///< one per thread that can work at once
  std::size_t workspace_size_ = 0;
  std::atomic<std::uint32_t> free_workspaces_{0};
  FloatBuffer log_std_sums_;  ///< of a minibatch
  FloatBuffer slabs_;         ///< float[kMaxSlabs, slab_stride_]
  std::size_t slab_stride_ = 0;
  std::array<LossStatistics, kMaxSlabs> partial_{};
};

/// Borrows a workspace for the scope; the lowest free one, so that one thread stays in warm memory.
class MlpPolicy::Workspace {
 public:
  explicit Workspace(MlpPolicy& policy) noexcept;
  ~Workspace() { policy_.free_workspaces_.fetch_or(1u << index_, std::memory_order_release); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  float* data() const noexcept { return policy_.workspaces_[index_].data(); }

 private:
  MlpPolicy& policy_;
  std::size_t index_ = 0;
};

/// Runs body(0..count-1) on the threads, or in order in the caller's.
template <class Body>
void MlpPolicy::for_each(int count, Body&& body) {
  if (threads_ && threads_->size() > 1 && count > 1) {
    threads_->parallel_for(count, body);
  } else {
    for (int i = 0; i < count; ++i) body(i);
  }
}

/// Runs body(first, count) over blocks of at most kBlockRows rows that cover [0, rows).
template <class Body>
void MlpPolicy::for_each_block(std::size_t rows, Body&& body) {
  // fewer rows per task would not pay for waking a thread
  constexpr int kRowsPerTask = 32;
  const int num_rows = static_cast<int>(rows);
  const int tasks = std::clamp(num_rows / kRowsPerTask, 1, kMaxSlabs);
  const auto begin = [&](int task) {
    return static_cast<int>(static_cast<std::int64_t>(num_rows) * task / tasks);
  };
  const bool together = tasks > 1 && threads_ && threads_->size() > 1;
  for_each(together ? tasks : 1, [&](int i) {
    const int end = together ? begin(i + 1) : num_rows;
    for (int first = together ? begin(i) : 0; first < end; first += kernels::kBlockRows)
      body(first, std::min(kernels::kBlockRows, end - first));
  });
}

}  // namespace canter::detail
