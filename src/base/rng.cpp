#include "canter/base/rng.hpp"

#include <bit>
#include <cmath>
#include <numbers>
#include <utility>

#include "canter/base/error.hpp"

namespace canter {
namespace {

// multipliers and key increments of Philox4x32 (Salmon et al. 2011, table 2 and section 4)
constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> c,
                                        std::array<std::uint32_t, 2> k) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{kMultiplier0} * c[0];
    const std::uint64_t p1 = std::uint64_t{kMultiplier1} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k[0] += kWeyl0;
    k[1] += kWeyl1;
  }
  return c;
}

Rng::Rng(std::uint64_t seed, Stream stream, std::uint32_t id, std::uint32_t episode) noexcept
    : counter_{0, episode, id, static_cast<std::uint32_t>(stream)},
      key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {}

std::uint32_t Rng::bits() noexcept {
  if (used_ == 4) {
    words_ = philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return words_[used_++];
}

double Rng::uniform() noexcept {
  // 53 bits: 21 of the first word above 32 of the second
  const std::uint64_t high = bits() >> 11, low = bits();
  return static_cast<double>((high << 32) | low) * 0x1p-53;
}

double Rng::normal() noexcept {
  if (has_spare_normal_) {
    has_spare_normal_ = false;
    return spare_normal_;
  }
  // Box-Muller on (0, 1] x [0, 1)
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  const double angle = 2.0 * std::numbers::pi * uniform();
  spare_normal_ = radius * std::sin(angle);
  has_spare_normal_ = true;
  return radius * std::cos(angle);
}

std::uint32_t Rng::integer(std::uint32_t bound) noexcept {
  // multiply-shift; reject the few low products that would make some results likelier
  std::uint64_t product = std::uint64_t{bits()} * bound;
  if (static_cast<std::uint32_t>(product) < bound) {
    const std::uint32_t threshold = static_cast<std::uint32_t>(-bound) % bound;
    while (static_cast<std::uint32_t>(product) < threshold) product = std::uint64_t{bits()} * bound;
  }
  return static_cast<std::uint32_t>(product >> 32);
}

void Rng::permutation(std::span<std::int32_t> out) noexcept {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t j = integer(static_cast<std::uint32_t>(i + 1));
    out[i] = out[j];
    out[j] = static_cast<std::int32_t>(i);
  }
}

void Rng::start_episode(std::uint32_t episode) noexcept {
  counter_[0] = 0;
  counter_[1] = episode;
  used_ = 4;
  has_spare_normal_ = false;
}

std::uint64_t Rng::seed() const noexcept {
  return (std::uint64_t{key_[1]} << 32) | key_[0];
}

std::array<std::uint32_t, Rng::kStateSize> Rng::state() const noexcept {
  const double spare = has_spare_normal_ ? spare_normal_ : 0.0;
  const auto spare_bits = std::bit_cast<std::uint64_t>(spare);
  return {key_[0],
          key_[1],
          counter_[0],
          counter_[1],
          counter_[2],
          counter_[3],
          used_,
          has_spare_normal_ ? 1u : 0u,
          static_cast<std::uint32_t>(spare_bits),
          static_cast<std::uint32_t>(spare_bits >> 32)};
}

void Rng::set_state(std::span<const std::uint32_t> state) {
  if (state.size() != kStateSize || state[6] > 4 || state[7] > 1 || (state[6] < 4 && state[2] == 0))
    throw CheckpointError("the state of a random number stream is not valid");
  key_ = {state[0], state[1]};
  counter_ = {state[2], state[3], state[4], state[5]};
  used_ = static_cast<std::uint8_t>(state[6]);
  has_spare_normal_ = state[7] == 1;
  spare_normal_ = std::bit_cast<double>((std::uint64_t{state[9]} << 32) | std::uint64_t{state[8]});
  // the words in use are a function of the block before the current one
  if (used_ < 4) {
    auto counter = counter_;
    --counter[0];
    words_ = philox4x32(counter, key_);
  }
}

}  // namespace canter
