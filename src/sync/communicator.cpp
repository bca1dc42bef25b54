// One process, and the search for a launcher that started several.

#include "canter/sync/communicator.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "canter/base/error.hpp"

namespace canter {
namespace {

class SingleCommunicator final : public Communicator {
 public:
  using Communicator::all_reduce;

  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  void all_reduce(std::span<float>, std::span<double>) override { check("all_reduce"); }
  void broadcast(std::span<std::byte>, int root) override {
    if (root != 0)
      throw InvalidArgument("broadcast: root must be in [0, 1), got " + std::to_string(root));
    check("broadcast");
  }
  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override {
    if (out.size() != in.size())
      throw InvalidArgument("all_gather: out must hold " + std::to_string(in.size()) +
                            " bytes, got " + std::to_string(out.size()));
    check("all_gather");
    if (!in.empty()) std::memmove(out.data(), in.data(), in.size());
  }
  void barrier() override { check("barrier"); }
  void abort() noexcept override { aborted_.store(true, std::memory_order_relaxed); }

 private:
  void check(const char* operation) const {
    if (aborted_.load(std::memory_order_relaxed))
      throw CommunicationError(std::string("rank 0 of 1: ") + operation + ": aborted");
  }
  std::atomic<bool> aborted_{false};
};

// a launcher's variables: how many ranks it started, and which one this is
struct Launcher {
  const char* name;
  const char* size_variable;
  const char* rank_variable;
};

constexpr Launcher kLaunchers[] = {
    {"torchrun", "WORLD_SIZE", "RANK"},
    {"srun", "SLURM_NTASKS", "SLURM_PROCID"},
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"mpiexec", "PMI_SIZE", "PMI_RANK"},
};

std::optional<long> integer_variable(const char* name) {
  const char* text = std::getenv(name);
  if (!text || !*text) return std::nullopt;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end || value < 0)
    throw CommunicationError(std::string(name) + " must be an integer >= 0, got '" + text + "'");
  return value;
}

// a batch script sees SLURM_NTASKS too, but only srun's tasks see the size of their step
bool is_slurm_batch_script() {
  return std::getenv("SLURM_JOB_ID") && !std::getenv("SLURM_STEP_NUM_TASKS") &&
         !std::getenv("SLURM_STEP_ID");
}

}  // namespace

std::shared_ptr<Communicator> Communicator::single() {
  return std::make_shared<SingleCommunicator>();
}

std::shared_ptr<Communicator> Communicator::from_environment() {
  for (const Launcher& launcher : kLaunchers) {
    const bool is_srun = std::strcmp(launcher.name, "srun") == 0;
    if (is_srun && (!std::getenv("SLURM_PROCID") || is_slurm_batch_script())) continue;
    const std::optional<long> size = integer_variable(launcher.size_variable);
    if (!size) continue;
    if (*size == 0)
      throw CommunicationError(std::string(launcher.size_variable) + " must be >= 1, got 0");
    if (*size == 1) return single();
    const std::optional<long> rank = integer_variable(launcher.rank_variable);
    throw CommunicationError(
        "rank " + (rank ? std::to_string(*rank) : "unknown") + " of " + std::to_string(*size) +
        " (" + launcher.name + ": " + launcher.size_variable + "=" + std::to_string(*size) +
        "): missing a communicator between processes (shared memory, c10d or NCCL), which this "
        "version of canter does not have; start one process, or give the ranks of one process "
        "canter::make_thread_communicators");
  }
  return single();
}

}  // namespace canter
