// MlpPolicy alone: how much of the core's arithmetic its update uses, and how long acting takes.
// usage: learner

#include <numeric>

#include "canter/ppo/mlp_policy.hpp"
#include "canter/ppo/ppo.hpp"
#include "fma_peak.hpp"
#include "measure.hpp"
#include "samples.hpp"

namespace {

// multiply-adds per sample: every weight once forward, once for its gradient, and once for its
// input's gradient where there is a layer below
double multiply_adds(const canter::Policy& policy) {
  double total = 0;
  for (const canter::ParameterView& view : policy.parameter_views()) {
    if (view.shape.size() != 2) continue;
    const bool first = view.shape[1] == bench::kObservationSize;
    total += double(view.size) * (first ? 2 : 3);
  }
  return total;
}

void arithmetic(int minibatch_size) {
  bench::Learner learner(minibatch_size);
  const double samples = double(learner.num_samples()) * learner.num_epochs();
  const int lanes = canter::kernel_name().find("v4") != std::string_view::npos ? 16 : 8;
  std::vector<double> shares;
  for (int turn = 0; turn < 7; ++turn) {
    const double peak = bench::fma_rate(lanes);
    learner.restore();
    const double seconds = bench::time_of(bench::cpu_seconds, [&] { learner.update(); });
    shares.push_back(multiply_adds(learner.policy()) * samples / seconds / peak);
  }
  bench::report("share of the core's FMA peak, minibatch " + std::to_string(minibatch_size),
                100 * bench::median(shares), "%");
}

void act() {
  constexpr int kRows = 64;
  const canter::Spec spec = bench::learner_spec();
  auto policy = canter::make_mlp_policy(spec, {}, 7);
  const std::vector<float> observations = bench::normals(kRows * spec.observation_size, 1);
  policy->observation_moments()->add(observations);
  std::vector<float> env_actions(std::size_t(kRows * spec.action_size())), actions(env_actions),
      log_probs(kRows), values(kRows);
  std::vector<double> seconds;
  std::uint32_t step = 0;
  for (int turn = 0; turn < 15; ++turn) {
    seconds.push_back(bench::time_of(bench::cpu_seconds, [&] {
      for (int i = 0; i < 200; ++i) {
        policy->act({.observations = observations, .seed = 7, .step = step++},
                    {env_actions, actions, log_probs, values});
      }
    }));
  }
  bench::report("act, 64 environments", 1e6 * bench::median(seconds) / 200, "us");
}

}  // namespace

int main() {
  for (const int size : {64, 512, 2048}) arithmetic(size);
  std::fprintf(stderr, "FMA peak: %.0f GFLOP/s with 8 lanes%s, kernels %s\n",
               2e-9 * bench::fma_rate(8),
               __builtin_cpu_supports("avx512f")
                   ? (", " + std::to_string(int(2e-9 * bench::fma_rate(16))) + " with 16").c_str()
                   : "",
               std::string(canter::kernel_name()).c_str());
  act();
}
