#include "canter/policy_file.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "trainer/runs.hpp"

using namespace canter;
using namespace canter::testing;
namespace fs = std::filesystem;

namespace {

struct Acts {
  std::vector<float> actions, values;
  bool operator==(const Acts&) const = default;
};

Acts acts_of(Policy& policy, std::span<const float> observations, bool deterministic) {
  const int rows = static_cast<int>(observations.size()) / policy.spec().observation_size;
  Acts acts;
  acts.actions.resize(static_cast<std::size_t>(rows * policy.spec().action_size()));
  acts.values.resize(static_cast<std::size_t>(rows));
  policy.act({.observations = observations, .seed = 4, .deterministic = deterministic},
             {.env_actions = acts.actions, .values = acts.values});
  return acts;
}

}  // namespace

TEST_CASE("a loaded policy acts exactly as the saved one, normalisers included") {
  const Scratch scratch;
  const fs::path path = scratch.path() / "policy.safetensors";
  for (const std::string run : {"CartPole-v1", "one leg"})
    for (const MlpPolicyOptions& options :
         {MlpPolicyOptions{.hidden = {16, 8}},
          MlpPolicyOptions{.hidden = {8}, .activation = Activation::elu},
          MlpPolicyOptions{.hidden = {8}, .activation = Activation::relu, .shared_trunk = true},
          MlpPolicyOptions{.hidden = {}, .normalize_observations = false}}) {
      auto trainer = make_small_trainer(run, {.policy = options, .trainer = short_iterations()});
      iterate(*trainer, 3);
      save_policy(path, trainer->policy());
      auto loaded = load_policy(path);
      const auto size = static_cast<std::size_t>(loaded->spec().observation_size);
      std::vector<float> observations(5 * size);
      for (std::size_t i = 0; i < observations.size(); ++i)
        observations[i] = 0.01f * static_cast<float>(i) - 0.2f;
      for (const bool deterministic : {true, false})
        CHECK(acts_of(*loaded, observations, deterministic) ==
              acts_of(trainer->policy(), observations, deterministic));
      CHECK(option_values(mlp_options(*loaded)) == option_values(options));
    }
}

TEST_CASE("a file that is damaged or something else is refused by name") {
  const Scratch scratch;
  const fs::path path = scratch.path() / "policy.safetensors";
  CHECK_THROWS_WITH_AS(load_policy(path), doctest::Contains("no such file"), CheckpointError);
  const Spec spec{.observation_size = 3, .action = Box{.size = 2}};
  save_policy(path, *make_mlp_policy(spec, {.hidden = {8}}));
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(-5, std::ios::end)
      .put(7);
  CHECK_THROWS_WITH_AS(load_policy(path), doctest::Contains("policy.safetensors"), CheckpointError);
  write_safetensors(path, StateDict(), {{"policy.kind", "torch"}});
  CHECK_THROWS_WITH_AS(load_policy(path), doctest::Contains("needs canter::torch"),
                       CheckpointError);
  write_safetensors(path, StateDict(), {});
  CHECK_THROWS_WITH_AS(load_policy(path), doctest::Contains("not a policy file"), CheckpointError);
}
