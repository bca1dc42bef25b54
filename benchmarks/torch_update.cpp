// MlpPolicy's minibatch update against LibTorch eager on the same networks and samples, one thread,
// everything from gathering the minibatch to Adam on both sides. LibTorch gets its inputs
// normalised, in memory that is allocated before, and computes no statistics.
// usage: torch_update

#include <torch/torch.h>

#include <map>
#include <numeric>
#include <string>

#include "measure.hpp"
#include "samples.hpp"

namespace {

torch::Tensor tensor_of(std::span<const float> values, std::vector<std::int64_t> shape) {
  return torch::from_blob(const_cast<float*>(values.data()), shape, torch::kFloat32).clone();
}

/// One row of the rollout per sample.
struct Samples {
  torch::Tensor observations, actions, log_probs, values, advantages, returns;
};

class TorchLearner {
 public:
  TorchLearner(bench::Learner& ours, int minibatch_size)
      : views_(ours.policy().parameter_views()),
        minibatch_size_(minibatch_size),
        options_(ours.ppo().options()) {
    for (const canter::ParameterView& view : views_) {
      parameters_.push_back(torch::zeros(view.shape).requires_grad_());
    }
    load(ours.policy());
    torch::optim::AdamOptions adam(options_.learning_rate);
    adam.eps(options_.adam_epsilon).betas({options_.adam_beta1, options_.adam_beta2});
    optimiser_ = std::make_unique<torch::optim::Adam>(parameters_, adam);
    all_ = samples_of(ours);
    batch_ = {torch::empty({minibatch_size, bench::kObservationSize}),
              torch::empty({minibatch_size, bench::kActionSize}),
              torch::empty({minibatch_size}),
              torch::empty({minibatch_size}),
              torch::empty({minibatch_size}),
              torch::empty({minibatch_size})};
  }

  void load(const canter::Policy& policy) {
    const torch::NoGradGuard guard;
    for (std::size_t i = 0; i < views_.size(); ++i) {
      parameters_[i].copy_(tensor_of(policy.parameters().subspan(views_[i].offset, views_[i].size),
                                     views_[i].shape));
    }
  }

  void update(int num_epochs) {
    for (int epoch = 0; epoch < num_epochs; ++epoch) {
      const torch::Tensor order = torch::randperm(all_.returns.size(0), torch::kInt64);
      for (std::int64_t first = 0; first < order.size(0); first += minibatch_size_) {
        gather(order.slice(0, first, first + minibatch_size_));
        optimiser_->zero_grad();
        loss().backward();
        torch::nn::utils::clip_grad_norm_(parameters_, options_.max_grad_norm);
        optimiser_->step();
      }
    }
  }

  /// Gradient of the loss over the first minibatch in order.
  const std::vector<torch::Tensor>& gradient() {
    gather(torch::arange(minibatch_size_));
    optimiser_->zero_grad();
    loss().backward();
    return parameters_;
  }
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  double advantage_mean() const { return batch_.advantages.mean().item<double>(); }
  double advantage_std() const { return batch_.advantages.std().item<double>(); }

 private:
  static Samples samples_of(bench::Learner& ours) {
    const canter::Rollout& rollout = ours.rollout();
    const std::int64_t n = rollout.num_samples();
    std::vector<float> mean(bench::kObservationSize), inverse_std(mean);
    ours.policy().observation_moments()->normaliser(mean, inverse_std);
    const auto rows = [n](const std::vector<float>& array, std::vector<std::int64_t> shape) {
      return tensor_of(
          std::span(array).first(static_cast<std::size_t>(n * (shape.size() > 1 ? shape[1] : 1))),
          shape);
    };
    torch::Tensor observations = rows(rollout.observations, {n, bench::kObservationSize});
    observations = ((observations - tensor_of(mean, {bench::kObservationSize})) *
                    tensor_of(inverse_std, {bench::kObservationSize}))
                       .clamp(-10, 10);
    return {observations,
            rows(rollout.actions, {n, bench::kActionSize}),
            rows(rollout.log_probs, {n}),
            rows(rollout.values, {n}),
            rows(rollout.advantages, {n}),
            rows(rollout.returns, {n})};
  }

  void gather(const torch::Tensor& indices) {
    const torch::NoGradGuard guard;
    torch::index_select_out(batch_.observations, all_.observations, 0, indices);
    torch::index_select_out(batch_.actions, all_.actions, 0, indices);
    torch::index_select_out(batch_.log_probs, all_.log_probs, 0, indices);
    torch::index_select_out(batch_.values, all_.values, 0, indices);
    torch::index_select_out(batch_.advantages, all_.advantages, 0, indices);
    torch::index_select_out(batch_.returns, all_.returns, 0, indices);
  }

  // output of the network whose parameters' names begin with `prefix`
  torch::Tensor network(const std::string& prefix) {
    torch::Tensor x = batch_.observations;
    bool first = true;
    for (std::size_t i = 0; i + 1 < views_.size(); ++i) {
      if (views_[i].name.rfind(prefix, 0) != 0 || views_[i].shape.size() != 2) continue;
      if (!first) x = torch::tanh(x);
      x = torch::linear(x, parameters_[i], parameters_[i + 1]);
      first = false;
    }
    return x;
  }

  torch::Tensor loss() {
    const float clip = options_.clip_range;
    const torch::Tensor mean = network("actor"), value = network("critic").squeeze(1);
    const torch::Tensor& log_std = parameters_[index_of("log_std")];
    constexpr double kLogRootTwoPi = 0.91893853320467274;
    const torch::Tensor z = (batch_.actions - mean) * torch::exp(-log_std);
    const torch::Tensor log_probs = (-0.5 * z * z - log_std - kLogRootTwoPi).sum(1);
    const torch::Tensor ratio = torch::exp(log_probs - batch_.log_probs);
    const torch::Tensor advantages =
        (batch_.advantages - batch_.advantages.mean()) / (batch_.advantages.std() + 1e-8);
    const torch::Tensor policy_loss =
        -torch::min(advantages * ratio, advantages * ratio.clamp(1 - clip, 1 + clip)).mean();
    const torch::Tensor clipped = batch_.values + (value - batch_.values).clamp(-clip, clip);
    const torch::Tensor value_loss =
        0.5 *
        torch::max((value - batch_.returns).square(), (clipped - batch_.returns).square()).mean();
    return policy_loss + options_.value_coefficient * value_loss;
  }

  std::size_t index_of(const std::string& name) const {
    for (std::size_t i = 0; i < views_.size(); ++i) {
      if (views_[i].name.find(name) != std::string::npos) return i;
    }
    throw std::runtime_error("no parameter " + name);
  }

  std::vector<canter::ParameterView> views_;
  std::int64_t minibatch_size_;
  canter::PpoOptions options_;
  std::vector<torch::Tensor> parameters_;
  std::unique_ptr<torch::optim::Adam> optimiser_;
  Samples all_, batch_;
};

// both sides' gradients of the same minibatch, tensor by tensor
void compare_gradients(bench::Learner& ours, TorchLearner& theirs, int minibatch_size) {
  theirs.load(ours.policy());
  const std::vector<torch::Tensor>& parameters = theirs.gradient();
  std::vector<std::int32_t> indices(static_cast<std::size_t>(minibatch_size));
  std::iota(indices.begin(), indices.end(), 0);
  canter::Rollout& rollout = ours.rollout();
  std::fill(ours.policy().gradients().begin(), ours.policy().gradients().end(), 0.0f);
  canter::LossOptions loss;
  loss.advantage_mean = static_cast<float>(theirs.advantage_mean());
  loss.advantage_scale = static_cast<float>(1 / (theirs.advantage_std() + 1e-8));
  // observations and values have one row more than there are samples
  const std::size_t n = rollout.advantages.size();
  ours.policy().backward(
      {std::span(rollout.observations).first(n * bench::kObservationSize), rollout.actions,
       rollout.log_probs, std::span(rollout.values).first(n), rollout.advantages, rollout.returns},
      indices, loss, 1.0f);
  const auto views = ours.policy().parameter_views();
  for (std::size_t i = 0; i < views.size(); ++i) {
    const torch::Tensor expected = parameters[i].grad();
    const torch::Tensor got = tensor_of(
        ours.policy().gradients().subspan(views[i].offset, views[i].size), views[i].shape);
    const double difference = (got - expected).abs().max().item<double>();
    const double largest = expected.abs().max().item<double>();
    bench::require(difference <= 2e-5 * largest, "gradient of " + views[i].name + ": " +
                                                     std::to_string(difference) + " of " +
                                                     std::to_string(largest));
  }
  std::fill(ours.policy().gradients().begin(), ours.policy().gradients().end(), 0.0f);
}

void compare(int minibatch_size) {
  bench::Learner ours(minibatch_size);
  ours.update();  // writes advantages and returns
  ours.restore();
  TorchLearner theirs(ours, minibatch_size);
  // away from the first parameters, where every ratio is 1
  theirs.update(1);
  {
    const auto views = ours.policy().parameter_views();
    for (std::size_t i = 0; i < views.size(); ++i) {
      const torch::Tensor values = theirs.parameters()[i].detach().contiguous();
      std::copy_n(values.data_ptr<float>(), views[i].size,
                  ours.policy().parameters().begin() + std::ptrdiff_t(views[i].offset));
    }
    ours.policy().parameters_changed();
  }
  compare_gradients(ours, theirs, minibatch_size);

  const bench::Pair pair = bench::alternate(
      5, bench::cpu_seconds,
      [&] {
        ours.restore();
        ours.update();
      },
      [&] {
        ours.restore();
        theirs.load(ours.policy());
        theirs.update(bench::Learner::kNumEpochs);
      });
  const double samples = double(ours.num_samples());
  bench::report("MlpPolicy update / LibTorch eager, minibatch " + std::to_string(minibatch_size),
                pair.ratio, "x");
  std::fprintf(stderr, "minibatch %d: ours %.2f us, LibTorch %.2f us per sample of 10 epochs\n",
               minibatch_size, 1e6 * pair.ours / samples, 1e6 * pair.theirs / samples);
}

}  // namespace

int main() {
  torch::set_num_threads(1);
  torch::manual_seed(7);
  for (const int size : {64, 512, 2048}) compare(size);
}
