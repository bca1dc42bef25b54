#pragma once
// config.toml: a run's options as text, and where two runs differ.

#include <string>
#include <vector>

#include "canter/run.hpp"

namespace canter::detail {

/// Every option, in sections [pool], [policy], [ppo], [trainer] and [checkpoint].
std::string to_toml(const RunOptions& run);

/// Reads text; `name` stands in errors. What it does not say comes from the preset it names, or,
/// for a text of to_toml, which says everything, is not looked for: then the preset is a mere note.
/// @throws InvalidArgument with name and line.
RunOptions parse_toml(const std::string& text, const std::string& name, bool is_whole = false);

/// "learning_rate is 0.001, but 0.0003 in the saved run" for every option that decides what a run
/// computes. Not compared: total_steps, threads, shards, places of files, when to save, the preset.
std::vector<std::string> differences(const RunOptions& run, const RunOptions& saved);

/// True for the options that differences() leaves out.
bool may_differ(std::string_view name);

}  // namespace canter::detail
