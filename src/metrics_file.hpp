#pragma once
// metrics.jsonl: one line per iteration, appended with plain system calls.

#include <cstdint>
#include <filesystem>
#include <string>

#include "canter/report.hpp"

namespace canter::detail {

/// An open metrics file. Appending allocates nothing.
class MetricsFile {
 public:
  MetricsFile() = default;
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Opens the file (made if needed) and cuts it after its first `size` bytes; of a shorter one the
  /// whole lines stay. @throws CheckpointError.
  void open(const std::filesystem::path& path, std::uint64_t size);
  bool is_open() const noexcept { return descriptor_ >= 0; }
  /// Appends a line. @returns false if it could not be written; the file is as before then.
  bool append(const Report& report) noexcept;
  /// Bytes of whole lines.
  std::uint64_t size() const noexcept { return size_; }

 private:
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace canter::detail
