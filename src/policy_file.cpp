#include "canter/policy_file.hpp"

#include <string>

#include "canter/base/error.hpp"
#include "canter/base/options.hpp"
#include "canter/checkpoint/safetensors.hpp"
#include "canter/ppo/mlp_policy.hpp"
#include "policy_content.hpp"

namespace canter {
namespace {

constexpr std::string_view kFormat = "1";

// fields of Spec that fit into text; bounds are arrays, so that they come back bit for bit
struct SpecText {
  int observation_size = 0, action_size = 0;
  bool discrete = false;
  int frame_skip = 1, max_episode_steps = 0;
  double step_seconds = 0;
};

template <class Visitor>
void visit(SpecText& o, Visitor&& v) {
  v("observation_size", o.observation_size);
  v("action_size", o.action_size);
  v("discrete", o.discrete);
  v("frame_skip", o.frame_skip);
  v("max_episode_steps", o.max_episode_steps);
  v("step_seconds", o.step_seconds);
}

template <class Options>
void write_options(Metadata& metadata, const std::string& prefix, const Options& options) {
  for (const auto& [name, value] : option_values(options)) {
    const std::string* text = std::get_if<std::string>(&value);
    metadata[prefix + name] = text ? *text : to_string(value);
  }
}

template <class Options>
void read_options(const Metadata& metadata, const std::string& prefix, Options& options) {
  for (const std::string& name : option_names<Options>()) {
    const std::string key = prefix + name;
    const auto entry = metadata.find(key);
    if (entry == metadata.end()) throw CheckpointError('"' + key + "\" is missing");
    set_option(options, name, parse_option_value(entry->second));
  }
  // an option this version does not know would change how the policy acts
  for (const auto& entry : metadata)
    if (entry.first.starts_with(prefix)) {
      const std::string name = entry.first.substr(prefix.size());
      bool known = false;
      for (const std::string& other : option_names<Options>()) known = known || other == name;
      if (!known) throw CheckpointError("unknown entry \"" + entry.first + '"');
    }
}

SpecText describe(const Spec& spec) {
  const bool discrete = spec.is_discrete();
  return {.observation_size = spec.observation_size,
          .action_size = discrete ? std::get<Discrete>(spec.action).count : spec.action_size(),
          .discrete = discrete,
          .frame_skip = spec.frame_skip,
          .max_episode_steps = spec.max_episode_steps,
          .step_seconds = spec.step_seconds};
}

Spec read_spec(const SafetensorsFile& file) {
  SpecText text;
  read_options(file.metadata, "spec.", text);
  Spec spec{.observation_size = text.observation_size,
            .frame_skip = text.frame_skip,
            .max_episode_steps = text.max_episode_steps,
            .step_seconds = text.step_seconds};
  if (text.discrete) {
    spec.action = Discrete{.count = text.action_size};
  } else {
    spec.action = Box{.size = text.action_size,
                      .lows = file.arrays.get<float>("spec/action_lows", {text.action_size}),
                      .highs = file.arrays.get<float>("spec/action_highs", {text.action_size})};
  }
  check(spec);
  return spec;
}

std::string entry(const Metadata& metadata, const std::string& name) {
  const auto found = metadata.find(name);
  if (found == metadata.end())
    throw CheckpointError("\"" + name + "\" is missing: not a policy file of canter");
  return found->second;
}

// a file cannot ask for more memory than its own arrays fill
void check_size(const MlpPolicyOptions& options, const Spec& spec, const StateDict& arrays) {
  const Discrete* discrete = std::get_if<Discrete>(&spec.action);
  const int num_actions = discrete ? discrete->count : spec.action_size();
  double weights = 0;
  int inputs = spec.observation_size;
  for (int outputs : options.hidden) {
    weights += static_cast<double>(inputs) * outputs;
    inputs = outputs;
  }
  weights += static_cast<double>(inputs) * num_actions;
  if (weights * sizeof(float) > static_cast<double>(arrays.num_bytes()))
    throw CheckpointError("its arrays hold fewer numbers than its sizes ask for");
}

std::shared_ptr<Policy> build(const SafetensorsFile& file) {
  const std::string kind = entry(file.metadata, "policy.kind");
  if (kind != "mlp")
    throw CheckpointError(
        "its kind is \"" + kind +
        "\", which needs canter::torch: build the module and load its state there");
  const std::string format = entry(file.metadata, "policy.format");
  if (format != kFormat)
    throw CheckpointError("its format is " + format + ", this version reads " +
                          std::string(kFormat));
  MlpPolicyOptions options;
  read_options(file.metadata, "mlp.", options);
  const Spec spec = read_spec(file);
  check_size(options, spec, file.arrays);
  auto policy = make_mlp_policy(spec, options);
  policy->load(file.arrays);
  return policy;
}

}  // namespace

namespace detail {

void append_policy(const Policy& policy, StateDict& state) {
  policy.save(state);
  const Spec& spec = policy.spec();
  if (const Box* box = std::get_if<Box>(&spec.action)) {
    std::vector<float> lows, highs;
    for (int i = 0; i < box->size; ++i) {
      lows.push_back(box->low_of(i));
      highs.push_back(box->high_of(i));
    }
    state.append_owned<float>("spec/action_lows", lows, {box->size});
    state.append_owned<float>("spec/action_highs", highs, {box->size});
  }
}

Metadata policy_metadata(const Policy& policy) {
  Metadata metadata{{"policy.kind", policy.kind()}, {"policy.format", std::string(kFormat)}};
  write_options(metadata, "spec.", describe(policy.spec()));
  if (policy.kind() == "mlp") {
    write_options(metadata, "mlp.", mlp_options(policy));
    metadata["policy.kernels"] = kernel_name();
  }
  return metadata;
}

}  // namespace detail

void save_policy(const std::filesystem::path& path, const Policy& policy) {
  StateDict state;
  detail::append_policy(policy, state);
  write_safetensors(path, state, detail::policy_metadata(policy));
}

std::shared_ptr<Policy> load_policy(const std::filesystem::path& path) {
  const SafetensorsFile file = read_safetensors(path);
  try {
    return build(file);
  } catch (const Error& error) {
    throw CheckpointError("policy file " + path.string() + ": " + error.what());
  }
}

}  // namespace canter
