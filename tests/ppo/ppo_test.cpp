// The update as a whole, on a linear policy: learning, schedules, stops, checkpoints, degenerate
// batches. Faults are in ppo_faults_test.cpp, ranks in ppo_ranks_test.cpp.

#include "canter/ppo/ppo.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "canter/base/error.hpp"
#include "ppo/filled_rollout.hpp"
#include "ppo/linear_policy.hpp"

namespace {

using canter::Communicator;
using canter::Ppo;
using canter::PpoOptions;
using canter::Rollout;
using canter::TruncationHandling;
using canter::UpdateReport;

canter::Spec spec(int observation_size = 3) {
  return {.observation_size = observation_size, .action = canter::Box{.size = 2}};
}

std::vector<float> copy_of(std::span<const float> x) {
  return {x.begin(), x.end()};
}

bool all_finite(std::span<const float> x) {
  return std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); });
}

// one rollout and update of a new policy; returns the parameters afterwards
std::vector<float> parameters_after(const PpoOptions& options, int num_envs,
                                    std::shared_ptr<canter::Threads> threads = nullptr,
                                    int observation_size = 3) {
  LinearPolicy policy(spec(observation_size), 1);
  Rollout rollout(options.horizon, num_envs, policy.spec(), true);
  fill(rollout, policy);
  Ppo ppo(options, 0, 1, policy);
  ppo.set_threads(std::move(threads));
  ppo.update(rollout, policy, *Communicator::single(), 0);
  return copy_of(policy.parameters());
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(double(a[i]) - double(b[i])));
  return worst;
}

}  // namespace

TEST_CASE("it learns: the mean action goes to where the reward is highest") {
  LinearPolicy policy(spec(), 1, true);
  const PpoOptions options{
      .horizon = 32, .num_epochs = 4, .num_minibatches = 4, .learning_rate = 0.01f};
  Ppo ppo(options, 0, 1, policy);
  Rollout rollout(32, 16, policy.spec());
  const auto communicator = Communicator::single();
  UpdateReport report;
  for (std::uint32_t iteration = 0; iteration < 40; ++iteration) {
    fill(rollout, policy, {.first_step = iteration * 100});
    report = ppo.update(rollout, policy, *communicator, 0);
    ppo.update_moments(rollout, policy, *communicator);
  }
  CHECK(policy.parameters()[6] == doctest::Approx(0.5).epsilon(0.1));
  CHECK(report.num_minibatches == 16);
  CHECK(report.skipped_updates == 0);
  CHECK(report.non_finite == "");
  CHECK(policy.observation_moments()->count() == 40 * 32 * 16);
  CHECK(policy.observation_moments()->variance(0) == doctest::Approx(1).epsilon(0.05));
}

TEST_CASE("before the first step every ratio is 1") {
  LinearPolicy policy(spec(), 1);
  Rollout rollout(64, 4, policy.spec());
  fill(rollout, policy);
  for (std::size_t i = 0; i < 256; ++i) {
    const double log_prob = policy.log_prob(&rollout.observations[3 * i], &rollout.actions[2 * i]);
    CHECK(std::abs(std::exp(log_prob - double(rollout.log_probs[i])) - 1) <= 1e-6);
  }
  Ppo ppo({.horizon = 64, .num_epochs = 1, .num_minibatches = 1}, 0, 1, policy);
  const UpdateReport report = ppo.update(rollout, policy, *Communicator::single(), 0);
  CHECK(report.clip_fraction == 0);
  CHECK(std::abs(report.approx_kl) <= 1e-6);
  // normalised advantages have mean 0, and so has the loss at ratio 1
  CHECK(std::abs(report.policy_loss) <= 1e-6);
}

TEST_CASE("one step is the clipped gradient through Adam") {
  LinearPolicy policy(spec(), 1), twin(spec(), 1);
  const PpoOptions options{
      .horizon = 16, .num_epochs = 1, .num_minibatches = 1, .max_grad_norm = 0.1f};
  Rollout rollout(16, 4, policy.spec());
  fill(rollout, policy);
  Ppo ppo(options, 0, 1, policy);
  const UpdateReport report = ppo.update(rollout, policy, *Communicator::single(), 0);

  // the same by hand: moments of the advantages, gradient, norm, first step of Adam
  double mean = 0, variance = 0;
  for (const float a : rollout.advantages) mean += double(a) / 64;
  for (const float a : rollout.advantages) variance += (double(a) - mean) * (double(a) - mean) / 63;
  std::vector<std::int32_t> all(64);
  for (int i = 0; i < 64; ++i) all[static_cast<std::size_t>(i)] = i;
  twin.backward(
      rollout.samples(), all,
      {.advantage_mean = float(mean), .advantage_scale = float(1 / (std::sqrt(variance) + 1e-8))},
      1);
  double norm = 0;
  for (const float g : twin.gradients()) norm += double(g) * double(g);
  norm = std::sqrt(norm);
  CHECK(norm > 0.1);
  CHECK(report.gradient_norm == doctest::Approx(norm).epsilon(1e-5));
  for (std::size_t i = 0; i < twin.gradients().size(); ++i) {
    const double g = double(twin.gradients()[i]) * 0.1 / (norm + 1e-6);
    const double expected = double(twin.parameters()[i]) - 3e-4 * g / (std::abs(g) + 1e-5);
    CHECK(double(policy.parameters()[i]) == doctest::Approx(expected).epsilon(1e-5));
  }
  CHECK(copy_of(policy.gradients()) == std::vector<float>(policy.gradients().size()));
}

TEST_CASE("the same bits for 1, 2 and 5 threads") {
  const PpoOptions options{.horizon = 8, .num_epochs = 2, .num_minibatches = 3};
  const std::vector<float> expected = parameters_after(options, 3, nullptr, 7001);
  for (const int num_threads : {2, 5}) {
    const auto parameters = parameters_after(options, 3, canter::make_threads(num_threads), 7001);
    CHECK(std::memcmp(parameters.data(), expected.data(), expected.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("rewards are scaled by the spread of the discounted return, across rollouts") {
  LinearPolicy policy(spec(), 1, true);
  const PpoOptions options{.horizon = 16,
                           .num_epochs = 1,
                           .num_minibatches = 1,
                           .gamma = 0.9f,
                           .gae_lambda = 0.8f,
                           .clip_reward = 1.5f};
  Ppo ppo(options, 0, 1, policy);
  Rollout rollout(16, 3, policy.spec());
  std::vector<double> returns_so_far, running(3);
  for (std::uint32_t iteration = 0; iteration < 3; ++iteration) {
    fill(rollout, policy, {.first_step = 100 * iteration});
    const Rollout before = rollout;
    ppo.update(rollout, policy, *Communicator::single(), 0);
    CHECK(rollout.rewards == before.rewards);  // the pool's own numbers stay

    // naive: one environment at a time, population variance of all returns so far
    for (std::size_t env = 0; env < 3; ++env)
      for (std::size_t t = 0; t < 16; ++t) {
        const std::size_t i = t * 3 + env;
        running[env] = 0.9 * running[env] + double(rollout.rewards[i]);
        returns_so_far.push_back(running[env]);
        if (rollout.terminated[i] || rollout.truncated[i]) running[env] = 0;
      }
    double mean = 0, variance = 0;
    for (const double r : returns_so_far) mean += r / double(returns_so_far.size());
    for (const double r : returns_so_far)
      variance += (r - mean) * (r - mean) / double(returns_so_far.size());
    std::vector<float> scaled(48), advantages(48), returns(48);
    bool has_clipped = false;
    for (std::size_t i = 0; i < 48; ++i) {
      const double x = double(rollout.rewards[i]) / std::sqrt(variance + 1e-8);
      scaled[i] = float(std::clamp(x, -1.5, 1.5));
      has_clipped = has_clipped || std::abs(x) > 1.5;
    }
    CHECK(has_clipped);
    auto rows = before.advantage_input();
    rows.rewards = scaled;
    canter::compute_advantages(rows, {0.9f, 0.8f}, advantages, returns);
    CHECK(largest_difference(advantages, rollout.advantages) <= 1e-4);
  }
}

TEST_CASE("masked samples do not touch the parameters") {
  PpoOptions options{
      .horizon = 16, .num_epochs = 2, .num_minibatches = 3, .truncation = TruncationHandling::mask};
  std::vector<float> expected;
  for (const float poison : {0.0f, 1e6f}) {
    LinearPolicy policy(spec(), 1);
    Rollout rollout(16, 4, policy.spec());
    fill(rollout, policy);
    for (std::size_t i = 0; i < 64; ++i)
      if (rollout.truncated[i] && !rollout.terminated[i]) {
        rollout.rewards[i] = rollout.log_probs[i] = rollout.actions[2 * i] = poison;
        rollout.observations[3 * i] = poison;
      }
    Ppo ppo(options, 0, 1, policy);
    ppo.update(rollout, policy, *Communicator::single(), 0);
    if (expected.empty()) expected = copy_of(policy.parameters());
    CHECK(copy_of(policy.parameters()) == expected);
  }
  options.truncation = TruncationHandling::bootstrap;
  CHECK(parameters_after(options, 4) != expected);
}

TEST_CASE("recomputed advantages follow the value function: two epochs equal two updates") {
  const auto run = [](bool recompute) {
    LinearPolicy policy(spec(), 1);
    Rollout rollout(16, 4, policy.spec(), true);
    fill(rollout, policy);
    PpoOptions options{.horizon = 16,
                       .num_epochs = recompute ? 2 : 1,
                       .num_minibatches = 1,
                       .learning_rate = 0.05f,
                       .recompute_advantages = recompute};
    Ppo ppo(options, 0, 1, policy);
    for (int update = 0; update < (recompute ? 1 : 2); ++update) {
      if (update > 0) rollout.evaluate_again(policy);
      ppo.update(rollout, policy, *Communicator::single(), 0);
    }
    return copy_of(policy.parameters());
  };
  CHECK(largest_difference(run(true), run(false)) <= 1e-5);
  const auto without = parameters_after(
      {.horizon = 16, .num_epochs = 2, .num_minibatches = 1, .learning_rate = 0.05f}, 4);
  CHECK(largest_difference(run(true), without) > 1e-4);

  LinearPolicy policy(spec(), 1);
  Rollout rollout(16, 4, policy.spec());
  Ppo ppo({.horizon = 16, .recompute_advantages = true}, 0, 1, policy);
  CHECK_THROWS_AS(ppo.update(rollout, policy, *Communicator::single(), 0), canter::InvalidArgument);
}

TEST_CASE("the KL stop ends the update before the step that would go too far") {
  LinearPolicy policy(spec(), 1);
  Rollout rollout(32, 4, policy.spec());
  fill(rollout, policy);
  Ppo ppo({.horizon = 32,
           .num_epochs = 50,
           .num_minibatches = 4,
           .learning_rate = 0.05f,
           .target_kl = 0.02f},
          0, 1, policy);
  const UpdateReport report = ppo.update(rollout, policy, *Communicator::single(), 0);
  CHECK(report.stopped_by_kl);
  CHECK(report.num_minibatches >= 1);
  CHECK(report.num_minibatches < 200);
  CHECK(copy_of(policy.gradients()) == std::vector<float>(policy.gradients().size()));
}

TEST_CASE("degenerate batches stay finite") {
  struct Case {
    int horizon, num_envs, num_minibatches;
  };
  for (const auto& [horizon, num_envs, num_minibatches] :
       {Case{9, 1, 8}, Case{9, 1, 2}, Case{1, 1, 1}, Case{1, 1, 32}, Case{1, 9, 4}}) {
    for (const bool equal : {false, true}) {
      LinearPolicy policy(spec(), 1, true);
      Rollout rollout(horizon, num_envs, policy.spec());
      fill(rollout, policy);
      if (equal) {  // r - V is the same everywhere
        rollout.terminated.assign(rollout.terminated.size(), 1);
        rollout.values.assign(rollout.values.size(), 0.25f);
        rollout.rewards.assign(rollout.rewards.size(), 1.0f);
      }
      Ppo ppo({.horizon = horizon, .num_epochs = 1, .num_minibatches = num_minibatches}, 0, 1,
              policy);
      for (int i = 0; i < 3; ++i) {
        const UpdateReport report = ppo.update(rollout, policy, *Communicator::single(), 0);
        CHECK(report.skipped_updates == 0);
        CHECK(report.num_minibatches == std::min(num_minibatches, horizon * num_envs));
        CHECK(std::isfinite(report.explained_variance));
      }
      canter::StateDict state;
      ppo.save(state);
      policy.save(state);
      for (const auto& array : state.arrays()) {
        if (array.dtype == canter::Dtype::f32)
          CHECK(all_finite(state.get<float>(array.name, array.shape)));
        if (array.dtype == canter::Dtype::f64)
          for (const double x : state.get<double>(array.name, array.shape)) CHECK(std::isfinite(x));
      }
    }
  }
}

TEST_CASE("the learning rate follows the steps done, also in a Ppo that was just loaded") {
  PpoOptions options{.horizon = 4, .num_minibatches = 1, .learning_rate = 3e-4f};
  const double rate = double(3e-4f);
  CHECK(canter::learning_rate_at(options, 0, 1'000'000) == rate);
  CHECK(canter::learning_rate_at(options, 400'000, 1'000'000) ==
        doctest::Approx(0.6 * rate).epsilon(1e-12));
  CHECK(canter::learning_rate_at(options, 2'000'000, 1'000'000) == 0);
  CHECK(canter::learning_rate_at(options, 400'000, 0) == rate);

  LinearPolicy policy(spec(), 1);
  Rollout rollout(4, 2, policy.spec());
  fill(rollout, policy);
  Ppo first(options, 1'000'000, 1, policy), second(options, 1'000'000, 1, policy);
  first.update(rollout, policy, *Communicator::single(), 399'992);
  canter::StateDict state;
  first.save(state);
  second.load(state);
  CHECK(second.update(rollout, policy, *Communicator::single(), 400'000).learning_rate ==
        doctest::Approx(1.8e-4).epsilon(1e-6));
  second.set_total_steps(800'000);
  CHECK(second.update(rollout, policy, *Communicator::single(), 400'000).learning_rate ==
        doctest::Approx(1.5e-4).epsilon(1e-6));
  options.learning_rate_schedule = canter::Schedule::constant;
  CHECK(canter::learning_rate_at(options, 400'000, 1'000'000) == rate);
}

TEST_CASE("saved and loaded, it continues with the same bits") {
  const PpoOptions options{.horizon = 8, .num_epochs = 2, .num_minibatches = 3};
  const auto run = [&](bool reload) {
    auto policy = std::make_unique<LinearPolicy>(spec(), 1, true);
    auto ppo = std::make_unique<Ppo>(options, 1000, 9, *policy);
    Rollout rollout(8, 5, policy->spec());
    for (std::uint32_t iteration = 0; iteration < 6; ++iteration) {
      if (reload && iteration == 3) {
        canter::StateDict state;
        ppo->save(state);
        policy->save(state);
        auto other_policy = std::make_unique<LinearPolicy>(spec(), 77, true);
        auto other_ppo = std::make_unique<Ppo>(options, 1000, 9, *other_policy);
        other_policy->load(state);
        other_ppo->load(state);
        policy = std::move(other_policy);
        ppo = std::move(other_ppo);
      }
      fill(rollout, *policy, {.first_step = 100 * iteration});
      ppo->update(rollout, *policy, *Communicator::single(), 40 * iteration);
    }
    return copy_of(policy->parameters());
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("states that do not fit are refused by name") {
  LinearPolicy policy(spec(), 1, true), wide(spec(9), 1, true);
  const PpoOptions options{.horizon = 4, .num_minibatches = 1};
  Ppo ppo(options, 0, 1, policy), other_size(options, 0, 1, wide),
      other_pool(options, 0, 1, policy);
  Rollout rollout(4, 2, policy.spec()), larger(4, 3, policy.spec());
  fill(rollout, policy);
  fill(larger, policy);
  ppo.update(rollout, policy, *Communicator::single(), 0);
  other_pool.update(larger, policy, *Communicator::single(), 0);
  canter::StateDict state, empty;
  ppo.save(state);
  CHECK_THROWS_AS(other_size.load(state), canter::CheckpointError);
  CHECK_THROWS_AS(other_pool.load(state), canter::CheckpointError);
  CHECK_THROWS_AS(ppo.load(empty), canter::CheckpointError);
  CHECK_THROWS_AS(ppo.update(larger, policy, *Communicator::single(), 0), canter::InvalidArgument);
}

TEST_CASE("options out of range and rollouts that do not fit are refused by name") {
  LinearPolicy policy(spec(), 1);
  CHECK_THROWS_WITH_AS(Ppo({.horizon = 0}, 0, 1, policy), "horizon must be >= 1, got 0",
                       canter::InvalidArgument);
  CHECK_THROWS_WITH_AS(Ppo({.gamma = 1.5f}, 0, 1, policy), "gamma must be in [0, 1], got 1.5",
                       canter::InvalidArgument);
  CHECK_THROWS_AS(Ppo({.num_minibatches = 0}, 0, 1, policy), canter::InvalidArgument);
  CHECK_THROWS_AS(Ppo({.learning_rate = NAN}, 0, 1, policy), canter::InvalidArgument);
  CHECK_THROWS_AS(Ppo({.adam_beta1 = 1.0f}, 0, 1, policy), canter::InvalidArgument);
  Ppo ppo({.horizon = 4}, 0, 1, policy);
  Rollout short_rollout(3, 1, policy.spec()), wide(4, 1, spec(5));
  CHECK_THROWS_AS(ppo.update(short_rollout, policy, *Communicator::single(), 0),
                  canter::InvalidArgument);
  CHECK_THROWS_AS(ppo.update(wide, policy, *Communicator::single(), 0), canter::InvalidArgument);
}
