// The update on several ranks, here threads of one process.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "canter/base/error.hpp"
#include "canter/ppo/ppo.hpp"
#include "ppo/filled_rollout.hpp"
#include "ppo/linear_policy.hpp"
#include "ppo/reward_scaler.hpp"

namespace {

using canter::CommunicationError;
using canter::Communicator;
using canter::Ppo;
using canter::PpoOptions;
using canter::Rollout;
using canter::UpdateReport;

canter::Spec spec(int observation_size = 3) {
  return {.observation_size = observation_size, .action = canter::Box{.size = 2}};
}

std::vector<std::string> run_ranks(int size, const std::function<void(Communicator&)>& body) {
  auto ranks = canter::make_thread_communicators(size, 60);
  std::vector<std::string> errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    threads.emplace_back([&, r, rank = std::move(ranks[r])]() mutable {
      try {
        body(*rank);
      } catch (const std::exception& error) {
        errors[r] = error.what();
      }
      rank.reset();
    });
  for (auto& thread : threads) thread.join();
  return errors;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// trains on `size` ranks of num_envs environments each; returns each rank's whole state
std::vector<std::vector<std::byte>> train(int size, int num_envs, const PpoOptions& options,
                                          int num_iterations, bool same_seed,
                                          UpdateReport* report) {
  std::vector<std::vector<std::byte>> states(static_cast<std::size_t>(size));
  const auto errors = run_ranks(size, [&](Communicator& communicator) {
    const auto rank = static_cast<std::uint32_t>(communicator.rank());
    LinearPolicy policy(spec(), same_seed ? 1 : 1 + rank, true);
    Ppo::synchronize(policy, communicator);
    Ppo ppo(options, 0, 1, policy);
    Rollout rollout(options.horizon, num_envs, policy.spec());
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(num_iterations); ++i) {
      fill(rollout, policy,
           {.first_id = rank * static_cast<std::uint32_t>(num_envs), .first_step = 100 * i});
      const UpdateReport now = ppo.update(rollout, policy, communicator, 0);
      ppo.update_moments(rollout, policy, communicator);
      if (report && rank == 0) *report = now;
    }
    canter::StateDict state;
    policy.save(state);
    ppo.save(state);
    auto& bytes = states[rank];
    for (const auto& array : state.arrays())
      if (!array.name.starts_with("env/"))
        bytes.insert(bytes.end(), array.bytes.begin(), array.bytes.end());
  });
  for (const auto& error : errors) CHECK(error == "");
  return states;
}

std::vector<float> parameters_of(const std::vector<std::byte>& state) {
  std::vector<float> parameters(LinearPolicy(spec()).parameters().size());
  std::memcpy(parameters.data(), state.data(), parameters.size() * sizeof(float));
  return parameters;
}

}  // namespace

TEST_CASE(
    "ranks end with the same bits: parameters, Adam, normalisers; whatever they started with") {
  for (const float target_kl : {0.0f, 0.01f}) {
    PpoOptions options{.horizon = 16,
                       .num_epochs = 3,
                       .num_minibatches = 4,
                       .learning_rate = 0.02f,
                       .truncation = canter::TruncationHandling::mask,
                       .target_kl = target_kl};
    UpdateReport report;
    for (const int size : {2, 3}) {
      const auto states = train(size, 3, options, 10, false, &report);
      for (const auto& state : states) CHECK(state == states[0]);
      CHECK(report.stopped_by_kl == (target_kl > 0));
    }
  }
}

TEST_CASE("two ranks of one full minibatch learn what one rank with all environments learns") {
  // masks make the ranks' sample counts differ: means must be weighted by samples
  for (const auto truncation :
       {canter::TruncationHandling::bootstrap, canter::TruncationHandling::mask}) {
    PpoOptions options{.horizon = 16,
                       .num_epochs = 3,
                       .num_minibatches = 1,
                       .learning_rate = 0.01f,
                       .truncation = truncation};
    UpdateReport one, two;
    const auto whole = parameters_of(train(1, 6, options, 4, true, &one)[0]);
    const auto halves = parameters_of(train(2, 3, options, 4, true, &two)[0]);
    for (std::size_t i = 0; i < whole.size(); ++i)
      CHECK(std::abs(double(whole[i]) - double(halves[i])) <= 1e-4);
    CHECK(two.explained_variance == doctest::Approx(one.explained_variance).epsilon(1e-3));
    CHECK(two.value_loss == doctest::Approx(one.value_loss).epsilon(1e-3));
    CHECK(two.gradient_norm == doctest::Approx(one.gradient_norm).epsilon(1e-3));
  }
}

TEST_CASE("moments of ranks are merged, not averaged, and in rank order") {
  const auto errors = run_ranks(2, [](Communicator& communicator) {
    canter::RunningMoments moments(1), delta(1);
    delta.add(communicator.rank() == 0 ? std::vector<float>{1, 2, 3} : std::vector<float>{10});
    std::vector<double> gathered;
    canter::detail::merge_ranks(moments, delta, communicator, gathered);
    CHECK(moments.count() == 4);
    CHECK(moments.mean()[0] == doctest::Approx(4).epsilon(1e-12));
    CHECK(moments.variance(0) == doctest::Approx(12.5).epsilon(1e-12));
    // nothing new: nothing changes
    delta.clear();
    canter::detail::merge_ranks(moments, delta, communicator, gathered);
    CHECK(moments.count() == 4);
    CHECK(moments.variance(0) == doctest::Approx(12.5).epsilon(1e-12));
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("a fault on one rank skips the update on all") {
  const auto errors = run_ranks(2, [](Communicator& communicator) {
    LinearPolicy policy(spec(), 1);
    Ppo ppo({.horizon = 8, .num_minibatches = 2}, 0, 1, policy);
    Rollout rollout(8, 3, policy.spec());
    fill(rollout, policy);
    if (communicator.rank() == 1) rollout.rewards[5] = std::nanf("");
    const std::vector<float> before(policy.parameters().begin(), policy.parameters().end());
    const UpdateReport report = ppo.update(rollout, policy, communicator, 0);
    CHECK(report.skipped_updates == 20);
    CHECK(report.non_finite ==
          (communicator.rank() == 1 ? "rewards: nan at environment 2, step 1" : ""));
    CHECK(std::vector<float>(policy.parameters().begin(), policy.parameters().end()) == before);
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("a rank that throws, or has gone, ends the update of the others with an error") {
  const auto errors = run_ranks(2, [](Communicator& communicator) {
    LinearPolicy policy(spec(), 1);
    Ppo ppo({.horizon = 8}, 0, 1, policy);
    Rollout rollout(communicator.rank() == 0 ? 8 : 9, 3, policy.spec());
    fill(rollout, policy);
    ppo.update(rollout, policy, communicator, 0);
  });
  CHECK(contains(errors[0], "rank 0 of 2"));
  CHECK(contains(errors[0], "aborted by rank 1"));
  CHECK(contains(errors[1], "horizon must be 8"));

  const auto gone = run_ranks(2, [](Communicator& communicator) {
    if (communicator.rank() == 1) return;
    LinearPolicy policy(spec(), 1);
    Ppo ppo({.horizon = 8}, 0, 1, policy);
    Rollout rollout(8, 3, policy.spec());
    fill(rollout, policy);
    ppo.update(rollout, policy, communicator, 0);
  });
  CHECK(contains(gone[0], "rank 1 has left"));
}

TEST_CASE(
    "policies that differ are noticed: other networks by synchronize, other numbers by update") {
  auto errors = run_ranks(2, [](Communicator& communicator) {
    LinearPolicy policy(spec(communicator.rank() == 0 ? 3 : 4), 1);
    Ppo::synchronize(policy, communicator);
  });
  for (const auto& error : errors)
    CHECK(contains(error,
                   "synchronize: the policy of rank 1 differs: policy/parameters F32 [17] "
                   "where rank 0 has policy/parameters F32 [14]"));
  errors = run_ranks(2, [](Communicator& communicator) {
    LinearPolicy policy(spec(), static_cast<std::uint64_t>(communicator.rank()));
    Ppo ppo({.horizon = 8}, 0, 1, policy);
    Rollout rollout(8, 3, policy.spec());
    fill(rollout, policy);
    ppo.update(rollout, policy, communicator, 0);
  });
  for (const auto& error : errors)
    CHECK(contains(error, "the parameters of rank 1 differ from those of rank 0"));
}
