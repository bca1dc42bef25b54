#pragma once
// Files that survive a crash, and reads that are bounded: every system call of checkpoint/ is here.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "canter/base/error.hpp"

namespace canter::detail {

/// A system call failed: says nothing about whether a file's content is damaged.
class FileError : public CheckpointError {
 public:
  FileError(const std::string& message, int code) : CheckpointError(message), code_(code) {}
  /// The value of errno.
  int code() const noexcept { return code_; }

 private:
  int code_;
};

/// Prefix of names that are not finished; whoever owns a folder may delete them at its start.
inline constexpr const char* kTemporaryPrefix = ".tmp-";

/// Writes `bytes` so that after a crash the old file or the new one is there: temporary in the same
/// folder, fsync, close, rename, fsync of the folder. Removes its temporary when it fails.
/// @throws CheckpointError with the path and the system's reason.
void write_durably(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// Makes the names in a folder durable. @throws CheckpointError.
void sync_directory(const std::filesystem::path& directory);

/// Makes a folder and its parents, durably. @throws CheckpointError.
void make_directories(const std::filesystem::path& directory);

/// Bytes that may still be written below `directory`.
std::uintmax_t free_space(const std::filesystem::path& directory);

/// The whole file; nothing when there is no such file.
/// @throws CheckpointError if it cannot be read, is not a regular file or has more than max_size
/// bytes.
std::optional<std::vector<std::byte>> read_file(const std::filesystem::path& path,
                                                std::uintmax_t max_size);

/// Exclusive use of a folder among processes, for as long as the object lives; the system ends it
/// when the process dies.
class DirectoryLock {
 public:
  explicit DirectoryLock(const std::filesystem::path& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  /// False: another process has it.
  bool held() const noexcept { return held_; }

 private:
  int descriptor_;
  bool held_;
};

}  // namespace canter::detail
