#pragma once
// A run: everything that `canter.train`, the command line and config.toml describe, in one struct,
// with the presets that reproduce published settings.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "canter/base/options.hpp"
#include "canter/env/pool.hpp"
#include "canter/ppo/mlp_policy.hpp"
#include "canter/trainer.hpp"

namespace canter {

/// Everything that defines a run.
struct RunOptions {
  std::string env;       ///< name of a registered task
  std::string preset{};  ///< name of a preset; "" : the defaults of the structs
  PoolOptions pool{};
  MlpPolicyOptions policy{};
  TrainerOptions trainer{};
};

template <class Visitor>
void visit(RunOptions& o, Visitor&& v) {
  v("env", o.env);
  v("preset", o.preset);
  visit(o.pool, v);
  visit(o.policy, v);
  visit(o.trainer, v);
}

/// Names of the presets.
std::vector<std::string> preset_names();

/// Options of a preset for an environment: "cleanrl" (as published; CleanRL's continuous or
/// discrete script, whichever fits) or "fast" (what learns fastest on a laptop).
/// @throws InvalidArgument for an unknown name, with the nearest match.
RunOptions preset(std::string_view name, std::string_view env);

/// Sets an option by its flat name ("num_envs", "learning_rate", "hidden"); `seed` sets pool,
/// policy and trainer. @throws InvalidArgument for an unknown name (nearest match) or a wrong type.
void set_option(RunOptions& run, std::string_view name, const OptionValue& value);
/// All flat names and values, in order; those of the struct's sections follow each other.
OptionValues option_values(const RunOptions& run);

/// What a user asked for: arguments over the preset over the defaults; the directory defaults to
/// "runs/<env>-seed<seed>". When it holds a saved run, that run's configuration wins, and of the
/// arguments only total_steps, num_threads, num_shards, directory, model_path and how often to save
/// may differ from it.
/// @throws InvalidArgument for an unknown name, or naming an argument that differs from the saved
/// run.
RunOptions resolve_run(std::string_view env, std::string_view preset,
                       const OptionValues& arguments);

/// Writes config.toml: every option, resolved. @throws CheckpointError when it cannot.
void save_config(const std::filesystem::path& path, const RunOptions& run);
/// Reads one; options that it does not name come from its preset, else from the defaults.
/// @throws InvalidArgument with file and line.
RunOptions load_config(const std::filesystem::path& path);

/// Builds pool, policy, communicator and trainer of a run; its seeds are pool.seed (environments)
/// and trainer.seed (parameters, actions, minibatches). Resumes nothing.
std::unique_ptr<Trainer> make_trainer(const RunOptions& run);

}  // namespace canter
