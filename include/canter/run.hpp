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
  std::string env;             ///< name of a registered task
  std::string preset{};        ///< name of a preset; "" : the defaults of the structs
  PoolOptions pool{};
  MlpPolicyOptions policy{};
  TrainerOptions trainer{};
};

/// Names of the presets, and what each reproduces.
std::vector<std::string> preset_names();

/// Options of a preset for an environment: "cleanrl" (as published; CleanRL's continuous or discrete
/// script, whichever fits) or "fast" (what learns fastest on a laptop).
/// @throws InvalidArgument for an unknown name, with the nearest match.
RunOptions preset(std::string_view name, std::string_view env);

/// Sets an option by its flat name ("num_envs", "learning_rate", "hidden"); `seed` sets pool, policy
/// and trainer. @throws InvalidArgument for an unknown name (nearest match) or a wrong type.
void set_option(RunOptions& run, std::string_view name, const OptionValue& value);
/// All flat names and values, in order; those of the struct's sections follow each other.
OptionValues option_values(const RunOptions& run);

/// Writes config.toml: every option, resolved. / Reads one. @throws InvalidArgument with file and line.
void save_config(const std::filesystem::path& path, const RunOptions& run);
RunOptions load_config(const std::filesystem::path& path);

/// Builds pool, policy, communicator and trainer of a run.
std::unique_ptr<Trainer> make_trainer(const RunOptions& run);

}  // namespace canter
