#include "checkpoint/checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <new>

namespace canter::detail {
namespace {

std::string to_digits(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  std::string text;
  text.reserve(kChecksumSize);
  for (const unsigned char byte : canonical.digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace

std::string checksum(std::span<const std::byte> bytes) {
  return to_digits(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string checksum(std::string_view text) {
  return checksum(std::as_bytes(std::span(text.data(), text.size())));
}

Checksum::Checksum() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_));
}

Checksum::~Checksum() {
  XXH3_freeState(static_cast<XXH3_state_t*>(state_));
}

void Checksum::add(std::span<const std::byte> bytes) noexcept {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}

void Checksum::add(std::string_view text) noexcept {
  add(std::as_bytes(std::span(text.data(), text.size())));
}

std::string Checksum::digits() const {
  return to_digits(XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_)));
}

}  // namespace canter::detail
