// policy files: a loaded policy acts exactly as the saved one; damage is refused

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "canter/base/error.hpp"
#include "canter/base/options.hpp"
#include "canter/checkpoint/safetensors.hpp"
#include "canter/policy_file.hpp"
#include "canter/ppo/mlp_policy.hpp"

using namespace canter;
namespace fs = std::filesystem;

namespace {

// a file of its own, removed at the end
struct Scratch {
  Scratch() {
    std::string folder = (fs::temp_directory_path() / "canter-policy-XXXXXX").string();
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    path = fs::path(folder) / "policy.safetensors";
  }
  ~Scratch() { fs::remove_all(path.parent_path()); }
  fs::path path;
};

std::vector<char> read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const fs::path& path, const std::vector<char>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::shared_ptr<Policy> trained(const Spec& spec, const MlpPolicyOptions& options) {
  auto policy = make_mlp_policy(spec, options, 3);
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  for (float& x : policy->parameters()) x += 0.2f * normal(generator);
  policy->parameters_changed();
  std::vector<float> rows(100 * static_cast<std::size_t>(spec.observation_size));
  for (float& x : rows) x = 3 * normal(generator) + 1;
  if (policy->observation_moments()) policy->observation_moments()->add(rows);
  return policy;
}

std::vector<float> act(Policy& policy, std::span<const float> observations, bool deterministic) {
  const std::size_t rows =
      observations.size() / static_cast<std::size_t>(policy.spec().observation_size);
  const std::size_t width = static_cast<std::size_t>(policy.spec().action_size());
  std::vector<float> all(rows * (2 * width + 2));
  const auto part = [&](std::size_t first, std::size_t size) {
    return std::span(all).subspan(first, size);
  };
  policy.act({.observations = observations, .seed = 5, .step = 2, .deterministic = deterministic},
             {part(0, rows * width), part(rows * width, rows * width), part(2 * rows * width, rows),
              part(2 * rows * width + rows, rows)});
  return all;
}

std::string error_of(const fs::path& path) {
  try {
    load_policy(path);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a loaded policy acts exactly as the saved one, in a batch and row by row") {
  const Scratch file;
  std::vector<float> lows{-1, -0.1f, -2}, highs{1, 0.3f, 1e30f};
  const Spec box{.observation_size = 9,
                 .action = Box{.size = 3, .lows = lows, .highs = highs},
                 .frame_skip = 5,
                 .max_episode_steps = 100,
                 .step_seconds = 0.05};
  const Spec discrete{.observation_size = 9, .action = Discrete{4}};
  for (const Spec& spec : {box, discrete})
    for (const bool shared : {false, true}) {
      const MlpPolicyOptions options{.hidden = {20, 7},
                                     .activation = Activation::elu,
                                     .shared_trunk = shared,
                                     .policy_gain = 0.3f,
                                     .normalize_observations = !shared,
                                     .clip_observation = 2.5f};
      const auto saved = trained(spec, options);
      save_policy(file.path, *saved);
      const auto loaded = load_policy(file.path);
      CHECK(loaded->kind() == "mlp");
      CHECK(option_values(mlp_options(*loaded)) == option_values(options));
      CHECK(loaded->spec().frame_skip == spec.frame_skip);
      CHECK(loaded->spec().max_episode_steps == spec.max_episode_steps);
      CHECK(loaded->spec().step_seconds == spec.step_seconds);
      CHECK(loaded->spec().is_discrete() == spec.is_discrete());
      if (const Box* b = std::get_if<Box>(&loaded->spec().action)) {
        CHECK(b->lows == lows);
        CHECK(b->highs == highs);
      }
      std::vector<float> observations(100 * 9);
      std::mt19937 generator(2);
      std::normal_distribution<float> normal;
      for (float& x : observations) x = 4 * normal(generator);
      for (const bool deterministic : {false, true}) {
        const auto expected = act(*saved, observations, deterministic);
        const auto out = act(*loaded, observations, deterministic);
        CHECK(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)) == 0);
      }
      for (std::size_t r = 0; r < 100; ++r) {
        const auto row = std::span<const float>(observations).subspan(r * 9, 9);
        const auto single = act(*loaded, row, true), expected = act(*saved, row, true);
        const auto batch = act(*saved, observations, true);
        CHECK(single == expected);
        CHECK(single[0] == batch[r * static_cast<std::size_t>(spec.action_size())]);
      }
    }
}

TEST_CASE("every flipped byte and every truncation is refused") {
  const Scratch file;
  save_policy(file.path,
              *trained({.observation_size = 3, .action = Box{.size = 1}}, {.hidden = {4}}));
  const std::vector<char> good = read(file.path);
  REQUIRE(error_of(file.path) == "");
  for (std::size_t at = 0; at < good.size(); at += at < 9000 ? 97 : 13) {
    std::vector<char> bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    // padding between header and data carries nothing
    write(file.path, bad);
    CAPTURE(at);
    CHECK(error_of(file.path).find(file.path.string()) != std::string::npos);
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, good.size() / 2, good.size() - 1}) {
    write(file.path, {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)});
    CHECK(error_of(file.path) != "");
  }
  fs::remove(file.path);
  CHECK(error_of(file.path).find(file.path.string()) != std::string::npos);
}

TEST_CASE("files that do not describe an MLP policy are refused with the reason") {
  const Scratch file;
  const auto policy = trained({.observation_size = 3, .action = Box{.size = 1}}, {.hidden = {4}});
  save_policy(file.path, *policy);
  const SafetensorsFile good = read_safetensors(file.path);
  save_policy(file.path, *trained({.observation_size = 3, .action = Discrete{2}}, {.hidden = {4}}));
  const SafetensorsFile discrete = read_safetensors(file.path);
  const auto error_with_in = [&](const SafetensorsFile& original, const std::string& name,
                                 const std::string& value) {
    Metadata metadata;
    for (const auto& [key, text] : original.metadata)
      if (!key.starts_with("xxh3/") && key != "format" && key != "version") metadata[key] = text;
    metadata[name] = value;
    StateDict arrays;
    for (const Array& array : original.arrays.arrays()) arrays.append(array);
    write_safetensors(file.path, arrays, metadata);
    return error_of(file.path);
  };
  const auto error_with = [&](const std::string& name, const std::string& value) {
    return error_with_in(good, name, value);
  };
  CHECK(error_with("policy.kernels", "other") == "");
  CHECK(error_with("policy.kind", "torch").find("canter::torch") != std::string::npos);
  CHECK(error_with("policy.format", "2").find("format is 2") != std::string::npos);
  CHECK(error_with("mlp.hidden", "[5]").find("actor.0.weight") != std::string::npos);
  CHECK(error_with("mlp.hidden", "[60000, 17000]").find("fewer") != std::string::npos);
  CHECK(error_with_in(discrete, "spec.action_size", "5000000").find("fewer") != std::string::npos);
  CHECK(error_with("mlp.hidden", "[-1]").find("hidden") != std::string::npos);
  CHECK(error_with("mlp.activation", "\"sine\"").find("sine") != std::string::npos);
  CHECK(error_with("mlp.dropout", "0.1").find("mlp.dropout") != std::string::npos);
  CHECK(error_with("spec.observation_size", "4").find("[4, 4]") != std::string::npos);
  CHECK(error_with("spec.action_size", "7").find("spec/action_lows") != std::string::npos);
}
