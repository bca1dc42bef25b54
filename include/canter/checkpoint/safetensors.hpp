#pragma once
// Files of named arrays in the safetensors format (huggingface.co/docs/safetensors), with a
// checksum per array. Any safetensors reader opens them.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "canter/base/state.hpp"

namespace canter {

/// The text entries of a file's `__metadata__`.
using Metadata = std::map<std::string, std::string>;

/// A file read whole: its arrays are views of `bytes`.
struct SafetensorsFile {
  StateDict arrays;
  Metadata metadata;
  std::vector<std::byte> bytes;
};

/// The file's bytes: 8-byte little-endian header length, JSON header padded so that data start at a
/// multiple of 4096, arrays aligned to 64 bytes, no holes. Adds "format", "version" and
/// "xxh3/<name>" to the metadata.
std::vector<std::byte> to_safetensors(const StateDict& arrays, const Metadata& metadata);

/// Parses and verifies bytes. @throws CheckpointError naming `name` and what is wrong; bounded
/// memory.
SafetensorsFile parse_safetensors(std::vector<std::byte> bytes, const std::string& name);

/// Writes a file so that after a crash the old or the new one is there: temporary in the same
/// folder, fsync, rename, fsync of the folder. @throws CheckpointError with the system's reason.
void write_safetensors(const std::filesystem::path& path, const StateDict& arrays,
                       const Metadata& metadata);

/// Reads and verifies a file.
SafetensorsFile read_safetensors(const std::filesystem::path& path);

}  // namespace canter
