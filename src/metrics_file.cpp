#include "metrics_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "canter/base/error.hpp"

namespace canter::detail {
namespace {

// bytes up to and including the last newline before `size`
std::uint64_t whole_lines(int descriptor, std::uint64_t size) {
  char last = 0;
  while (size > 0 && ::pread(descriptor, &last, 1, static_cast<off_t>(size - 1)) == 1 &&
         last != '\n')
    --size;
  return size;
}

}  // namespace

MetricsFile::~MetricsFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MetricsFile::open(const std::filesystem::path& path, std::uint64_t size) {
  const auto fail = [&](const char* what) {
    throw CheckpointError(std::string("cannot ") + what + " '" + path.string() +
                          "': " + std::generic_category().message(errno));
  };
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  struct stat information {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &information) != 0) fail("open");
  size_ = whole_lines(descriptor_, std::min(size, static_cast<std::uint64_t>(information.st_size)));
  if (::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) fail("truncate");
}

bool MetricsFile::append(const Report& report) noexcept {
  std::array<char, 2048> line;
  std::size_t length = write_json(report, std::span(line).first(line.size() - 1));
  line[length++] = '\n';
  const ssize_t count = ::write(descriptor_, line.data(), length);
  if (count == static_cast<ssize_t>(length)) {
    size_ += length;
    return true;
  }
  // half a line would make the file unreadable; that this can fail too changes nothing
  [[maybe_unused]] const int ignored = ::ftruncate(descriptor_, static_cast<off_t>(size_));
  return false;
}

}  // namespace canter::detail
