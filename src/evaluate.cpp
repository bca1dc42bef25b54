#include "canter/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "canter/base/error.hpp"

namespace canter {
namespace {

// P(|T| <= t) of Student's distribution with `degrees` of freedom, t = sqrt(degrees) tan(angle):
// finite sums for whole degrees (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)
double central_probability(int degrees, double angle) {
  const double sine = std::sin(angle), cosine = std::cos(angle);
  double term = degrees % 2 == 0 ? 1.0 : cosine, sum = 0;
  for (int k = degrees % 2 == 0 ? 2 : 3; k <= degrees; k += 2) {
    sum += term;
    term *= cosine * cosine * (k - 1) / k;
  }
  if (degrees % 2 == 0) return sine * sum;
  return 2 / std::numbers::pi * (angle + sine * sum);
}

// the t with P(|T| <= t) = 0.95
double student_t95(int degrees) {
  double low = 0, high = std::numbers::pi / 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (central_probability(degrees, middle) < 0.95 ? low : high) = middle;
  }
  return std::sqrt(degrees) * std::tan(low);
}

void summarise(Evaluation& result) {
  const auto n = static_cast<double>(result.returns.size());
  double sum = 0, squares = 0;
  for (const float x : result.returns) sum += static_cast<double>(x);
  result.return_mean = sum / n;
  for (const float x : result.returns) {
    const double difference = static_cast<double>(x) - result.return_mean;
    squares += difference * difference;
  }
  double half_width = std::numeric_limits<double>::infinity();
  if (result.returns.size() > 1) {
    result.return_std = std::sqrt(squares / (n - 1));
    half_width =
        student_t95(static_cast<int>(result.returns.size()) - 1) * result.return_std / std::sqrt(n);
  }
  result.return_low = result.return_mean - half_width;
  result.return_high = result.return_mean + half_width;
  result.length_mean = std::accumulate(result.lengths.begin(), result.lengths.end(), 0.0) / n;
}

// every environment's quota, and the place of its first episode in the result
struct Quotas {
  std::vector<int> left;
  std::vector<std::size_t> next;
  int unfinished = 0;

  Quotas(int episodes, int num_envs) {
    std::size_t first = 0;
    for (int i = 0; i < num_envs; ++i) {
      const int quota = episodes / num_envs + (i < episodes % num_envs ? 1 : 0);
      left.push_back(quota);
      next.push_back(first);
      first += static_cast<std::size_t>(quota);
      unfinished += quota;
    }
  }
};

void check_fits(const EnvPool& pool, const Policy& policy, const EvaluateOptions& options) {
  if (options.episodes < 1)
    throw InvalidArgument("episodes must be >= 1, got " + std::to_string(options.episodes));
  const Spec &have = pool.spec(), &want = policy.spec();
  if (have.observation_size != want.observation_size || have.is_discrete() != want.is_discrete() ||
      have.action_size() != want.action_size())
    throw InvalidArgument(
        "the policy was made for " + std::to_string(want.observation_size) + " observations and " +
        std::to_string(want.action_size()) + (want.is_discrete() ? " discrete" : " continuous") +
        " actions, the pool has " + std::to_string(have.observation_size) + " and " +
        std::to_string(have.action_size()) + (have.is_discrete() ? " discrete" : " continuous"));
  if (have.is_discrete() &&
      std::get<Discrete>(have.action).count != std::get<Discrete>(want.action).count)
    throw InvalidArgument(
        "the policy chooses among " + std::to_string(std::get<Discrete>(want.action).count) +
        " actions, the pool has " + std::to_string(std::get<Discrete>(have.action).count));
  if (policy.state_size() > 0)
    throw InvalidArgument("recurrent policies cannot be evaluated by this function");
}

}  // namespace

Evaluation evaluate(EnvPool& pool, Policy& policy, const EvaluateOptions& options,
                    const std::function<bool()>& keep_going) {
  check_fits(pool, policy, options);
  const int num_envs = pool.num_envs();
  Evaluation result;
  result.returns.resize(static_cast<std::size_t>(options.episodes));
  result.lengths.resize(result.returns.size());
  Quotas quotas(options.episodes, num_envs);
  StepBuffers buffers(num_envs, pool.spec());
  std::vector<float> actions(static_cast<std::size_t>(num_envs) *
                             static_cast<std::size_t>(pool.spec().action_size()));
  pool.reset(options.seed, buffers.view());
  for (std::uint32_t step = 0; quotas.unfinished > 0; ++step) {
    policy.act({.observations = buffers.observations,
                .seed = options.seed,
                .first_id = static_cast<std::uint32_t>(pool.options().env_offset),
                .step = step,
                .deterministic = options.deterministic},
               {.env_actions = actions});
    pool.step(actions, buffers.view());
    for (std::size_t i = 0; i < quotas.left.size(); ++i) {
      if (quotas.left[i] == 0 || !(buffers.terminated[i] || buffers.truncated[i])) continue;
      result.returns[quotas.next[i]] = buffers.episode_returns[i];
      result.lengths[quotas.next[i]] = buffers.episode_lengths[i];
      ++quotas.next[i];
      --quotas.left[i];
      --quotas.unfinished;
    }
    if (keep_going && !keep_going()) break;
  }
  summarise(result);
  return result;
}

}  // namespace canter
