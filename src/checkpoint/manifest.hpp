#pragma once
// MANIFEST.json: what a checkpoint consists of. Its own checksum stands first, at a fixed place, so
// that it can be verified before anything is parsed.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "canter/base/error.hpp"
#include "canter/checkpoint/store.hpp"

namespace canter::detail {

/// Name of the file, and the most bytes a reader accepts.
inline constexpr const char* kManifestName = "MANIFEST.json";
constexpr std::uintmax_t kMaxManifestSize = std::uintmax_t{16} << 20;

/// A file of a checkpoint.
struct ManifestFile {
  std::string name;
  std::uintmax_t size = 0;
  std::string checksum;
};

/// The content of MANIFEST.json.
struct Manifest {
  std::int64_t step = 0;
  CheckpointInfo info;
  std::vector<ManifestFile> files;
};

/// The manifest was written by a later version of the format: valid, but not for this reader.
class NewerFormat : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

/// The text of a manifest, checksum included.
std::string to_text(const Manifest& manifest);

/// Verifies and parses. @throws CheckpointError if damaged, NewerFormat.
Manifest parse_manifest(std::span<const std::byte> bytes);

}  // namespace canter::detail
