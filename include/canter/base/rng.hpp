#pragma once
// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). A draw is a pure function of (seed, stream, id, episode,
// position), so it depends on nothing else: not on threads, shards, pool size, ranks or order.
// The layout (key = seed, counter = {block, episode, id, stream}) is frozen: files rely on it.

#include <array>
#include <cstdint>
#include <span>

namespace canter {

/// What a stream of random numbers is for; the fourth word of the counter. Values are frozen.
enum class Stream : std::uint32_t {
  environment = 0,     ///< resets and steps of one environment; id = global environment id
  action = 1,          ///< action sampling; id = global environment id, episode = policy step
  shuffle = 2,         ///< minibatch permutation; id = epoch, episode = iteration
  initialisation = 3,  ///< initial parameters; id = layer
  randomisation = 4,   ///< domain randomisation; id = global environment id
};

/// One block of Philox4x32-10: four 32-bit words out of a counter and a key.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) noexcept;

/// A stream of random numbers with a position. 64 bytes, copyable, no allocation, no lock;
/// distinct objects may be used from distinct threads.
class Rng {
 public:
  Rng() noexcept : Rng(0, Stream::environment, 0, 0) {}
  Rng(std::uint64_t seed, Stream stream, std::uint32_t id, std::uint32_t episode) noexcept;

  /// Uniform 32 bits.
  std::uint32_t bits() noexcept;
  /// Uniform in [0, 1) with 53 random bits.
  double uniform() noexcept;
  /// Uniform in [low, high).
  double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }
  /// Standard normal (Box-Muller; both halves of a pair are used).
  double normal() noexcept;
  /// Normal with the given mean and standard deviation.
  double normal(double mean, double std) noexcept { return mean + std * normal(); }
  /// Uniform integer in [0, bound) without modulo bias (Lemire 2019); bound >= 1.
  std::uint32_t integer(std::uint32_t bound) noexcept;
  /// Fills `out` with a uniformly random permutation of 0..size-1 (Fisher-Yates).
  void permutation(std::span<std::int32_t> out) noexcept;

  /// Starts the stream of another episode from its first number; seed, stream and id stay.
  void start_episode(std::uint32_t episode) noexcept;
  std::uint64_t seed() const noexcept;
  std::uint32_t episode() const noexcept { return counter_[1]; }

  /// The whole position as words, for checkpoints: {seed lo, seed hi, block, episode, id, stream,
  /// words used of the current block, has a spare normal, spare normal lo, hi}.
  static constexpr int kStateSize = 10;
  std::array<std::uint32_t, kStateSize> state() const noexcept;
  /// @throws CheckpointError if the words cannot be a state.
  void set_state(std::span<const std::uint32_t> state);

 private:
  std::array<std::uint32_t, 4> counter_{};  // block, episode, id, stream
  std::array<std::uint32_t, 2> key_{};
  std::array<std::uint32_t, 4> words_{};  // output of block counter_[0] - 1
  double spare_normal_ = 0;
  std::uint8_t used_ = 4;  // words of words_ that were handed out
  bool has_spare_normal_ = false;
};

}  // namespace canter
