#pragma once
// XXH3-128 as 32 hexadecimal digits (big-endian, as xxhsum prints it).

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace canter::detail {

/// Digits of a checksum.
constexpr std::size_t kChecksumSize = 32;

/// XXH3-128 of the bytes.
std::string checksum(std::span<const std::byte> bytes);
std::string checksum(std::string_view text);

/// Adds up the checksum of many pieces in order.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void add(std::span<const std::byte> bytes) noexcept;
  void add(std::string_view text) noexcept;
  std::string digits() const;

 private:
  void* state_;
};

}  // namespace canter::detail
