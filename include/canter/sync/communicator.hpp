#pragma once
// Communicator: collectives over flat buffers between the ranks of a run. Every rank calls the same
// operations in the same order; results are the same bits on every rank.
//
//   auto ranks = canter::make_thread_communicators(2);      // element r goes to thread r
//   ranks[r]->all_reduce(gradient, tail);                   // now the sum over both, on both

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace canter {

/// One rank's end of a group. Not thread-safe: one caller per rank (abort() excepted).
/// After a CommunicationError the whole group is broken: every later operation throws too.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;

  /// Sums two buffers over all ranks in rank order, in place, in one operation: gradients in
  /// float32 and the few numbers that travel with them in float64.
  /// @throws CommunicationError naming rank and operation when a rank fails, leaves, calls another
  /// operation or other sizes, or does not come before the deadline.
  virtual void all_reduce(std::span<float> data, std::span<double> tail) = 0;
  void all_reduce(std::span<float> data) { all_reduce(data, {}); }
  void all_reduce(std::span<double> data) { all_reduce({}, data); }
  /// Copies the root's bytes to every rank. @throws InvalidArgument for a root outside [0, size()).
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  /// Concatenates every rank's `in` in rank order.
  /// @throws InvalidArgument unless out.size() == size() * in.size().
  virtual void all_gather(std::span<const std::byte> in, std::span<std::byte> out) = 0;
  virtual void barrier() = 0;
  /// Makes every rank's pending and later operation throw; callable from any thread.
  virtual void abort() noexcept = 0;

  /// One process: every operation is the identity.
  static std::shared_ptr<Communicator> single();
  /// The communicator of the launcher that started this process, recognised by WORLD_SIZE and RANK
  /// (torchrun), SLURM_NTASKS and SLURM_PROCID (srun), OMPI_COMM_WORLD_SIZE (mpirun) or PMI_SIZE
  /// (mpiexec); single() without one or with one rank.
  /// @throws CommunicationError for more than one rank (names what is missing) or a malformed
  /// variable.
  static std::shared_ptr<Communicator> from_environment();
};

/// `size` ranks that are threads of this process; element r belongs to rank r. A rank that destroys
/// its end leaves: the others' waits for it end with an error.
/// timeout_seconds: deadline of every wait [s].
/// @throws InvalidArgument for size < 1 or a deadline that is not > 0.
std::vector<std::shared_ptr<Communicator>> make_thread_communicators(int size,
                                                                     double timeout_seconds = 60);

}  // namespace canter
