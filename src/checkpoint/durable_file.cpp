#include "checkpoint/durable_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace canter::detail {
namespace {

[[noreturn]] void fail(const char* what, const std::filesystem::path& path, int error) {
  throw FileError(std::string("cannot ") + what + " '" + path.string() +
                      "': " + std::generic_category().message(error),
                  error);
}

// an open file that is closed on every road
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return value_; }
  // the last write error of a network file system appears here
  int close() {
    const int result = ::close(value_);
    value_ = -1;
    return result;
  }

 private:
  int value_;
};

void write_all(int descriptor, std::span<const std::byte> bytes,
               const std::filesystem::path& path) {
  // a single write moves at most 2 GiB
  while (!bytes.empty()) {
    const ssize_t count =
        ::write(descriptor, bytes.data(), std::min<std::size_t>(bytes.size(), 1U << 30));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("write", path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void write_and_sync(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) fail("create", path, errno);
  write_all(file.get(), bytes, path);
  if (::fsync(file.get()) != 0) fail("sync", path, errno);
  if (file.close() != 0) fail("close", path, errno);
}

}  // namespace

void write_durably(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  // a rename would put a file where a device or a pipe was
  struct stat before {};
  if (::lstat(path.c_str(), &before) == 0 && !S_ISREG(before.st_mode) && !S_ISLNK(before.st_mode) &&
      !S_ISDIR(before.st_mode))
    throw FileError("cannot write '" + path.string() + "': it is no regular file", EEXIST);
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
  const std::filesystem::path temporary =
      directory / (kTemporaryPrefix + path.filename().string() + '-' + std::to_string(::getpid()));
  try {
    write_and_sync(temporary, bytes);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("rename to", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(directory);
}

void sync_directory(const std::filesystem::path& directory) {
  Descriptor folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) fail("open", directory, errno);
  // some file systems know no fsync of a folder and say so with EINVAL
  if (::fsync(folder.get()) != 0 && errno != EINVAL) fail("sync", directory, errno);
}

void make_directories(const std::filesystem::path& directory) {
  std::error_code ignored;  // the calls below say what is wrong
  if (std::filesystem::is_directory(directory, ignored)) return;
  const std::filesystem::path absolute = std::filesystem::absolute(directory).lexically_normal();
  const std::filesystem::path path = absolute.has_filename() ? absolute : absolute.parent_path();
  make_directories(path.parent_path());
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) fail("make directory", path, errno);
  if (!std::filesystem::is_directory(path, ignored)) fail("make directory", path, ENOTDIR);
  sync_directory(path.parent_path());
}

std::uintmax_t free_space(const std::filesystem::path& directory) {
  struct statvfs information {};
  if (::statvfs(directory.c_str(), &information) != 0) fail("examine", directory, errno);
  return static_cast<std::uintmax_t>(information.f_bavail) * information.f_frsize;
}

std::optional<std::vector<std::byte>> read_file(const std::filesystem::path& path,
                                                std::uintmax_t max_size) {
  // O_NONBLOCK: opening a pipe must not wait for its other end
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    fail("open", path, errno);
  }
  struct stat information {};
  if (::fstat(file.get(), &information) != 0) fail("examine", path, errno);
  if (!S_ISREG(information.st_mode))
    throw CheckpointError("'" + path.string() + "' is not a regular file");
  const auto size = static_cast<std::uintmax_t>(information.st_size);
  if (size > max_size)
    throw CheckpointError("'" + path.string() + "' has " + std::to_string(size) +
                          " bytes, expected at most " + std::to_string(max_size));
  std::vector<std::byte> bytes(size);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", path, errno);
    if (count == 0) break;  // somebody truncated it meanwhile: the checksum will tell
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

DirectoryLock::DirectoryLock(const std::filesystem::path& directory)
    : descriptor_(::open((directory / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)),
      held_(false) {
  if (descriptor_ < 0) fail("create", directory / ".lock", errno);
  held_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
}

DirectoryLock::~DirectoryLock() {
  ::close(descriptor_);
}

}  // namespace canter::detail
