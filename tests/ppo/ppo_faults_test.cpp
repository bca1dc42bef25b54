// Numbers that are not finite never reach parameters, moments or normalisers, and are named.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "canter/base/error.hpp"
#include "canter/ppo/ppo.hpp"
#include "ppo/filled_rollout.hpp"
#include "ppo/linear_policy.hpp"

namespace {

using canter::Communicator;
using canter::Ppo;
using canter::PpoOptions;
using canter::Rollout;
using canter::UpdateReport;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kSample = 3 * 9 + 7;  // step 3, environment 7 of 9

const PpoOptions kOptions{.horizon = 8, .num_epochs = 2, .num_minibatches = 4};

canter::Spec spec() {
  return {.observation_size = 3, .action = canter::Box{.size = 2}};
}

// everything that lives longer than one update, without the counter of iterations
std::vector<std::byte> bits_of(const Ppo& ppo, const LinearPolicy& policy) {
  canter::StateDict state;
  ppo.save(state);
  policy.save(state);
  std::vector<std::byte> bytes;
  for (const auto& array : state.arrays())
    if (array.name != "ppo/iteration")
      bytes.insert(bytes.end(), array.bytes.begin(), array.bytes.end());
  return bytes;
}

struct Setting {
  LinearPolicy policy{spec(), 1, true};
  Ppo ppo{kOptions, 0, 1, policy};
  Rollout rollout{8, 9, spec()};

  Setting() {
    fill(rollout, policy);
    update();
    fill(rollout, policy, {.first_step = 100});
  }
  UpdateReport update() {
    const UpdateReport report = ppo.update(rollout, policy, *Communicator::single(), 0);
    ppo.update_moments(rollout, policy, *Communicator::single());
    return report;
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("one unusable number in the rollout: the update is skipped, and the number named") {
  struct Case {
    std::string name;
    std::function<void(Rollout&)> plant;
  };
  const std::string place = " at environment 7, step 3";
  const std::vector<Case> cases = {
      {"rewards: inf" + place, [](Rollout& r) { r.rewards[kSample] = kInf; }},
      {"rewards: 1e+30" + place, [](Rollout& r) { r.rewards[kSample] = 1e30f; }},
      {"observations[2]: nan" + place, [](Rollout& r) { r.observations[3 * kSample + 2] = kNan; }},
      {"actions[1]: -inf" + place, [](Rollout& r) { r.actions[2 * kSample + 1] = -kInf; }},
      {"log_probs: -inf" + place, [](Rollout& r) { r.log_probs[kSample] = -kInf; }},
      {"values: nan" + place, [](Rollout& r) { r.values[kSample] = kNan; }},
      {"final_values: nan" + place,
       [](Rollout& r) {
         r.final_values[kSample] = kNan;
         r.terminated[kSample] = 0;
         r.truncated[kSample] = 1;
       }},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    Setting s;
    const auto before = bits_of(s.ppo, s.policy);
    c.plant(s.rollout);
    const UpdateReport report = s.update();
    CHECK(report.non_finite == c.name);
    CHECK(report.skipped_updates == 8);
    CHECK(report.num_minibatches == 0);
    CHECK(bits_of(s.ppo, s.policy) == before);

    // the next healthy rollout is learned from
    fill(s.rollout, s.policy, {.first_step = 200});
    const UpdateReport next = s.update();
    CHECK(next.non_finite == "");
    CHECK(next.num_minibatches == 8);
    CHECK(bits_of(s.ppo, s.policy) != before);
  }
}

namespace {

// the only rank of a group that breaks at one of its sums
class Breaking final : public Communicator {
 public:
  using Communicator::all_reduce;
  explicit Breaking(int healthy) : healthy_(healthy) {}
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  void all_reduce(std::span<float>, std::span<double>) override {
    if (healthy_-- == 0) throw canter::CommunicationError("planted");
  }
  void broadcast(std::span<std::byte>, int) override {}
  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override {
    std::ranges::copy(in, out.begin());
  }
  void barrier() override {}
  void abort() noexcept override {}

 private:
  int healthy_;
};

}  // namespace

TEST_CASE("an update that an exception ended leaves nothing behind once the state is loaded") {
  Setting broken, whole;
  canter::StateDict views, saved;
  broken.ppo.save(views);
  broken.policy.save(views);
  for (const auto& array : views.arrays())
    saved.append_owned<std::byte>("copy/" + array.name, array.bytes,
                                  {static_cast<std::int64_t>(array.bytes.size())});
  canter::StateDict state;
  for (const auto& array : views.arrays())
    state.append(canter::Array{array.name, array.dtype, array.shape,
                               saved.find("copy/" + array.name)->bytes});
  // the sums: is the rollout usable, moments, then one per minibatch
  Breaking communicator(4);
  CHECK_THROWS_AS(broken.ppo.update(broken.rollout, broken.policy, communicator, 0),
                  canter::CommunicationError);
  broken.policy.load(state);
  broken.ppo.load(state);
  broken.update();
  whole.update();
  CHECK(bits_of(broken.ppo, broken.policy) == bits_of(whole.ppo, whole.policy));
}

TEST_CASE("values of final observations count only where the time limit ended an episode") {
  Setting s;
  s.rollout.truncated[kSample] = s.rollout.terminated[kSample] = 1;
  s.rollout.final_values[kSample] = kNan;
  CHECK(s.update().non_finite == "");
}

namespace {

// a policy whose backward reports or computes something that is not finite, from call `first` on
class FaultyPolicy final : public canter::Policy {
 public:
  enum class Fault { gradient, loss };
  FaultyPolicy(LinearPolicy& inner, Fault fault, int first)
      : inner_(inner), fault_(fault), calls_left_(first) {}
  const canter::Spec& spec() const noexcept override { return inner_.spec(); }
  std::string kind() const override { return "faulty"; }
  void act(const canter::ActInput& in, const canter::ActOutput& out) override {
    inner_.act(in, out);
  }
  void value(std::span<const float> x, std::span<float> v) override { inner_.value(x, v); }
  canter::LossStatistics backward(const canter::SampleView& samples,
                                  std::span<const std::int32_t> indices,
                                  const canter::LossOptions& options, float weight) override {
    auto sums = inner_.backward(samples, indices, options, weight);
    if (calls_left_-- <= 0 && fault_ == Fault::loss) sums.value_loss = double(kInf);
    if (calls_left_ < 0 && fault_ == Fault::gradient) inner_.gradients()[9] = kInf;
    return sums;
  }
  std::span<float> parameters() noexcept override { return inner_.parameters(); }
  std::span<const float> parameters() const noexcept override {
    return std::as_const(inner_).parameters();
  }
  std::span<float> gradients() noexcept override { return inner_.gradients(); }
  std::vector<canter::ParameterView> parameter_views() const override {
    return inner_.parameter_views();
  }
  canter::RunningMoments* observation_moments() noexcept override { return nullptr; }
  canter::RunningMoments* return_moments() noexcept override { return nullptr; }
  void set_threads(std::shared_ptr<canter::Threads>) override {}
  void save(canter::StateDict& state) const override { inner_.save(state); }
  void validate(const canter::StateDict& state) const override { inner_.validate(state); }
  void load(const canter::StateDict& state) override { inner_.load(state); }

 private:
  LinearPolicy& inner_;
  Fault fault_;
  int calls_left_;
};

}  // namespace

TEST_CASE("a loss or gradient that is not finite skips its minibatch") {
  using Fault = FaultyPolicy::Fault;
  for (const Fault fault : {Fault::gradient, Fault::loss}) {
    Setting s;
    FaultyPolicy faulty(s.policy, fault, 0);
    const auto before = bits_of(s.ppo, s.policy);
    UpdateReport report = s.ppo.update(s.rollout, faulty, *Communicator::single(), 0);
    CHECK(report.skipped_updates == 8);
    CHECK(bits_of(s.ppo, s.policy) == before);
    const std::string name =
        fault == Fault::gradient ? "gradient of critic.weight: inf" : "value_loss: inf";
    CHECK(
        contains(report.non_finite, name + " in epoch 0, minibatch 0; largest |return - value| "));
    for (const float g : s.policy.gradients()) CHECK(g == 0);

    FaultyPolicy later(s.policy, fault, 5);
    report = s.ppo.update(s.rollout, later, *Communicator::single(), 0);
    CHECK(report.skipped_updates == 3);
    CHECK(report.num_minibatches == 5);
    CHECK(contains(report.non_finite, name + " in epoch 1, minibatch 1"));
  }
}

TEST_CASE("a ratio that overflows skips its minibatch") {
  LinearPolicy policy(spec(), 1);
  Rollout rollout(8, 9, spec());
  fill(rollout, policy);
  rollout.log_probs[kSample] = -1e5f;  // ratio exp(1e5)
  Ppo ppo({.horizon = 8, .num_epochs = 1, .num_minibatches = 1}, 0, 1, policy);
  const auto before = bits_of(ppo, policy);
  const UpdateReport report = ppo.update(rollout, policy, *Communicator::single(), 0);
  CHECK(report.skipped_updates == 1);
  CHECK(contains(report.non_finite, "inf in epoch 0, minibatch 0"));
  const auto after = bits_of(ppo, policy);
  CHECK(std::vector(after.begin(), after.begin() + 100) ==
        std::vector(before.begin(), before.begin() + 100));
}
