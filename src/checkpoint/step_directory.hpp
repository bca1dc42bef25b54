#pragma once
// The folders of a store: their names, what they hold, and which of it is left over.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"

namespace canter::detail {

/// "step-000000001234".
std::string step_name(std::int64_t step);

/// The step of such a name; nothing for other names.
std::optional<std::int64_t> step_of(const std::string& name);

/// What is in a folder, sorted; empty if it cannot be listed.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& directory);

/// Steps with a manifest below a store's folder, ascending.
std::vector<std::int64_t> committed_steps(const std::filesystem::path& store);

/// The manifest of a step's folder; nothing when it has none. @throws CheckpointError if damaged.
std::optional<Manifest> read_manifest(const std::filesystem::path& folder);

/// True if the manifest lists a file of that name.
bool lists(const Manifest& manifest, const std::string& name);

/// Removes what the manifest of a step's folder does not list; without a manifest, the folder.
void remove_leftovers(const std::filesystem::path& folder);

/// Reads and verifies a step: sizes and checksums first, then the parse. @throws CheckpointError.
Checkpoint read_step(const std::filesystem::path& folder, std::int64_t step);

}  // namespace canter::detail
