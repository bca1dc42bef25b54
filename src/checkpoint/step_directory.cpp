#include "checkpoint/step_directory.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <system_error>
#include <utility>

#include "canter/base/error.hpp"
#include "checkpoint/checksum.hpp"
#include "checkpoint/durable_file.hpp"

namespace canter::detail {

namespace fs = std::filesystem;

std::string step_name(std::int64_t step) {
  char text[32];
  std::snprintf(text, sizeof text, "step-%012lld", static_cast<long long>(step));
  return text;
}

std::optional<std::int64_t> step_of(const std::string& name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string digits = name.substr(prefix.size());
  if (digits.size() < 12 || digits.size() > 18 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::stoll(digits);
}

std::vector<fs::path> entries_of(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::vector<std::int64_t> committed_steps(const fs::path& store) {
  std::vector<std::int64_t> steps;
  for (const fs::path& entry : entries_of(store)) {
    const auto step = step_of(entry.filename().string());
    std::error_code ignored;
    if (step && fs::exists(entry / kManifestName, ignored)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::optional<Manifest> read_manifest(const fs::path& folder) {
  const auto bytes = read_file(folder / kManifestName, kMaxManifestSize);
  if (!bytes) return std::nullopt;
  return parse_manifest(*bytes);
}

bool lists(const Manifest& manifest, const std::string& name) {
  return std::any_of(manifest.files.begin(), manifest.files.end(),
                     [&](const ManifestFile& file) { return file.name == name; });
}

void remove_leftovers(const fs::path& folder) {
  std::error_code ignored;
  try {
    const auto manifest = read_manifest(folder);
    if (!manifest) {
      fs::remove_all(folder, ignored);
      return;
    }
    for (const fs::path& entry : entries_of(folder)) {
      const std::string name = entry.filename().string();
      if (name != kManifestName && !lists(*manifest, name)) fs::remove(entry, ignored);
    }
  } catch (const CheckpointError&) {
    // damaged or of a later version: for a reader to judge
  }
}

Checkpoint read_step(const fs::path& folder, std::int64_t step) {
  auto manifest = read_manifest(folder);
  if (!manifest) throw CheckpointError("manifest is missing");
  if (manifest->step != step)
    throw CheckpointError("manifest is that of step " + std::to_string(manifest->step));
  const ManifestFile& listed = manifest->files.front();
  auto bytes = read_file(folder / listed.name, listed.size);
  if (!bytes) throw CheckpointError("file '" + listed.name + "' is missing");
  if (bytes->size() != listed.size)
    throw CheckpointError("file '" + listed.name + "' has " + std::to_string(bytes->size()) +
                          " bytes, expected " + std::to_string(listed.size) + ": truncated");
  if (checksum(*bytes) != listed.checksum)
    throw CheckpointError("checksum of file '" + listed.name + "' differs: damaged");
  auto file = std::make_shared<SafetensorsFile>(
      parse_safetensors(std::move(*bytes), (folder / listed.name).string()));
  Checkpoint checkpoint;
  checkpoint.step = step;
  checkpoint.state = std::move(file->arrays);
  checkpoint.info = std::move(manifest->info);
  checkpoint.memory = std::move(file);
  return checkpoint;
}

}  // namespace canter::detail
