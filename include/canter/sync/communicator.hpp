#pragma once
// Communicator: collectives over flat buffers between the ranks of a run. Every rank calls the same
// operations in the same order; results are the same bits on every rank.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace canter {

/// One rank's end of a group. Not thread-safe: one caller per rank.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;

  /// Sums over ranks in rank order, in place. @throws CommunicationError naming rank and operation.
  virtual void all_reduce(std::span<float> data) = 0;
  virtual void all_reduce(std::span<double> data) = 0;
  /// Copies the root's bytes to every rank.
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  /// Concatenates every rank's `in` in rank order; out.size() == size() * in.size().
  virtual void all_gather(std::span<const std::byte> in, std::span<std::byte> out) = 0;
  virtual void barrier() = 0;
  /// Makes every rank's pending and later operation throw; callable from any thread.
  virtual void abort() noexcept = 0;

  /// One process: every operation is the identity.
  static std::shared_ptr<Communicator> single();
  /// The communicator of the launcher that started this process: single() without one.
  /// @throws CommunicationError when WORLD_SIZE (or SLURM_NTASKS under srun) > 1: names what is missing.
  static std::shared_ptr<Communicator> from_environment();
};

/// `size` ranks that are threads of this process; element r belongs to rank r.
/// timeout_seconds: deadline of every wait [s].
std::vector<std::shared_ptr<Communicator>> make_thread_communicators(int size,
                                                                     double timeout_seconds = 60);

}  // namespace canter
