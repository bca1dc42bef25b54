// Ranks that are threads of one process. Each operation has one meeting point: a rank copies its
// data into a slot of the group, waits until all have arrived, and then reads everybody's slots.
// There are two sets of slots, used in turn, so no second wait is needed: a rank comes back to a
// set only after the next meeting, and by then everyone has finished reading. Since all that is
// shared belongs to the group, a rank that gives up leaves nobody with a dangling pointer.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "canter/base/error.hpp"
#include "canter/sync/communicator.hpp"

namespace canter {
namespace {

enum class Operation { all_reduce, broadcast, all_gather, barrier };
constexpr std::array<const char*, 4> kOperationNames = {"all_reduce", "broadcast", "all_gather",
                                                        "barrier"};

// what a rank asks for; the same on all of them
struct Request {
  Operation operation = Operation::barrier;
  int root = 0;
  std::size_t num_floats = 0, num_doubles = 0, num_bytes = 0;

  bool operator==(const Request&) const = default;
};

// what a rank brings to a meeting
struct Slot {
  Request request;
  std::vector<float> floats;  // the vectors only grow
  std::vector<double> doubles;
  std::vector<std::byte> bytes;
};

std::string describe(const Request& request) {
  std::string text = kOperationNames[static_cast<std::size_t>(request.operation)];
  switch (request.operation) {
    case Operation::all_reduce:
      return text + "(float[" + std::to_string(request.num_floats) + "], double[" +
             std::to_string(request.num_doubles) + "])";
    case Operation::broadcast:
      return text + "(" + std::to_string(request.num_bytes) + " bytes from rank " +
             std::to_string(request.root) + ")";
    case Operation::all_gather:
      return text + "(" + std::to_string(request.num_bytes) + " bytes)";
    case Operation::barrier:
      break;
  }
  return text + "()";
}

// the meeting points of all ranks
class Group {
 public:
  Group(int size, double timeout_seconds)
      : slots_(static_cast<std::size_t>(2 * size)),
        arrivals_(static_cast<std::size_t>(size)),
        gone_(static_cast<std::size_t>(size), false),
        size_(size),
        timeout_(timeout_seconds) {}

  int size() const noexcept { return size_; }
  Slot& slot(std::uint64_t meeting, int rank) noexcept {
    return slots_[static_cast<std::size_t>(meeting % 2) * static_cast<std::size_t>(size_) +
                  static_cast<std::size_t>(rank)];
  }

  // before a rank writes to its slot: once it was told that a meeting failed, slower ranks may
  // still be reading that slot for the meeting before
  void check_whole(int rank, const Request& request) {
    if (!broken_.load(std::memory_order_acquire)) return;
    std::lock_guard lock(mutex_);
    throw_broken(rank, request, reason_);
  }

  // announces `rank` at a meeting (counted from 1) and waits for all others
  void meet(std::uint64_t meeting, int rank) {
    const Request& request = slot(meeting, rank).request;
    arrivals_[static_cast<std::size_t>(rank)].store(meeting, std::memory_order_release);
    // the others are usually microseconds away: look a few times before going to sleep
    for (int i = 0; i < kSpins; ++i) {
      if (broken_.load(std::memory_order_acquire)) break;
      if (all_arrived(meeting)) return wake_others();
      if (i > kSpins / 2) std::this_thread::yield();
    }
    std::unique_lock lock(mutex_);
    wake_.notify_all();
    const auto deadline = std::chrono::steady_clock::now() +
                          std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                              std::chrono::duration<double>(timeout_));
    while (true) {
      // a complete meeting counts, whatever happened to the group afterwards
      if (all_arrived(meeting)) return;
      if (broken_.load(std::memory_order_acquire)) throw_broken(rank, request, reason_);
      if (const int r = first_gone(meeting); r >= 0)
        break_group(rank, request, "rank " + std::to_string(r) + " has left");
      if (wake_.wait_until(lock, deadline) == std::cv_status::timeout && !all_arrived(meeting) &&
          !broken_.load(std::memory_order_acquire))
        break_group(rank, request, "waited " + seconds_text() + " s for " + missing(meeting));
    }
  }

  // all ranks see the same slots, so all throw when the calls differ
  void check_same_calls(std::uint64_t meeting, int rank) {
    const Request& first = slot(meeting, 0).request;
    for (int r = 1; r < size_; ++r) {
      const Request& other = slot(meeting, r).request;
      if (first == other) continue;
      std::lock_guard lock(mutex_);
      break_group(rank, slot(meeting, rank).request,
                  "rank 0 calls " + describe(first) + ", but rank " + std::to_string(r) +
                      " calls " + describe(other));
    }
  }

  void abort(int rank) noexcept {
    std::lock_guard lock(mutex_);
    set_broken("aborted by rank " + std::to_string(rank));
  }

  void leave(int rank) noexcept {
    std::lock_guard lock(mutex_);
    gone_[static_cast<std::size_t>(rank)] = true;
    wake_.notify_all();
  }

 private:
  static constexpr int kSpins = 200;

  bool all_arrived(std::uint64_t meeting) const noexcept {
    for (const auto& arrival : arrivals_)
      if (arrival.load(std::memory_order_acquire) < meeting) return false;
    return true;
  }

  // the last one to arrive may find the others asleep
  void wake_others() {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }

  int first_gone(std::uint64_t meeting) const {
    for (std::size_t r = 0; r < gone_.size(); ++r)
      if (gone_[r] && arrivals_[r].load(std::memory_order_acquire) < meeting)
        return static_cast<int>(r);
    return -1;
  }

  std::string missing(std::uint64_t meeting) const {
    std::string text;
    for (std::size_t r = 0; r < arrivals_.size(); ++r)
      if (arrivals_[r].load(std::memory_order_acquire) < meeting)
        text += (text.empty() ? "rank " : ", rank ") + std::to_string(r);
    return text;
  }

  std::string seconds_text() const {
    std::string text = std::to_string(timeout_);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  }

  void set_broken(std::string reason) {
    if (!broken_.load(std::memory_order_relaxed)) reason_ = std::move(reason);
    broken_.store(true, std::memory_order_release);
    wake_.notify_all();
  }

  [[noreturn]] void break_group(int rank, const Request& request, const std::string& reason) {
    set_broken(reason);
    throw_broken(rank, request, reason);
  }

  [[noreturn]] void throw_broken(int rank, const Request& request, const std::string& reason) {
    throw CommunicationError("rank " + std::to_string(rank) + " of " + std::to_string(size_) +
                             ": " + describe(request) + ": " + reason);
  }

  std::vector<Slot> slots_;                           // [2, size]
  std::vector<std::atomic<std::uint64_t>> arrivals_;  // latest meeting of each rank
  std::vector<bool> gone_;
  int size_;
  double timeout_;
  std::atomic<bool> broken_{false};
  std::string reason_;
  std::mutex mutex_;  // of gone_, reason_ and sleeping
  std::condition_variable wake_;
};

template <class T>
void put(std::vector<T>& to, std::span<const T> from) {
  if (to.size() < from.size()) to.resize(from.size());
  std::copy(from.begin(), from.end(), to.begin());
}

class ThreadCommunicator final : public Communicator {
 public:
  using Communicator::all_reduce;

  ThreadCommunicator(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}
  ~ThreadCommunicator() override { group_->leave(rank_); }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return group_->size(); }

  void all_reduce(std::span<float> data, std::span<double> tail) override {
    meet(Operation::all_reduce, 0, data, tail, {});
    sum(data, [](const Slot& slot) { return slot.floats.data(); });
    sum(tail, [](const Slot& slot) { return slot.doubles.data(); });
  }

  void broadcast(std::span<std::byte> data, int root) override {
    if (root < 0 || root >= size())
      throw InvalidArgument("broadcast: root must be in [0, " + std::to_string(size()) + "), got " +
                            std::to_string(root));
    meet(Operation::broadcast, root, {}, {}, data);
    if (rank_ != root && !data.empty())
      std::memcpy(data.data(), group_->slot(meeting_, root).bytes.data(), data.size());
  }

  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override {
    if (out.size() != in.size() * static_cast<std::size_t>(size()))
      throw InvalidArgument("all_gather: out must hold " +
                            std::to_string(in.size() * static_cast<std::size_t>(size())) +
                            " bytes, got " + std::to_string(out.size()));
    meet(Operation::all_gather, 0, {}, {}, in);
    if (in.empty()) return;
    for (int r = 0; r < size(); ++r)
      std::memcpy(out.data() + static_cast<std::size_t>(r) * in.size(),
                  group_->slot(meeting_, r).bytes.data(), in.size());
  }

  void barrier() override { meet(Operation::barrier, 0, {}, {}, {}); }
  void abort() noexcept override { group_->abort(rank_); }

 private:
  void meet(Operation operation, int root, std::span<const float> floats,
            std::span<const double> doubles, std::span<const std::byte> bytes) {
    const Request request{operation, root, floats.size(), doubles.size(), bytes.size()};
    group_->check_whole(rank_, request);
    ++meeting_;
    Slot& slot = group_->slot(meeting_, rank_);
    slot.request = request;
    put(slot.floats, floats);
    put(slot.doubles, doubles);
    put(slot.bytes, bytes);
    group_->meet(meeting_, rank_);
    group_->check_same_calls(meeting_, rank_);
  }

  // the same additions in the same order on every rank: the same bits
  template <class T, class Data>
  void sum(std::span<T> out, Data data) {
    for (int r = 0; r < size(); ++r) {
      const T* in = data(group_->slot(meeting_, r));
      if (r == 0)
        std::copy(in, in + out.size(), out.begin());
      else
        for (std::size_t i = 0; i < out.size(); ++i) out[i] += in[i];
    }
  }

  std::shared_ptr<Group> group_;
  int rank_;
  std::uint64_t meeting_ = 0;
};

}  // namespace

std::vector<std::shared_ptr<Communicator>> make_thread_communicators(int size,
                                                                     double timeout_seconds) {
  if (size < 1) throw InvalidArgument("size must be >= 1, got " + std::to_string(size));
  if (!(timeout_seconds > 0) || !std::isfinite(timeout_seconds))
    throw InvalidArgument("timeout_seconds must be > 0 and finite, got " +
                          std::to_string(timeout_seconds));
  auto group = std::make_shared<Group>(size, timeout_seconds);
  std::vector<std::shared_ptr<Communicator>> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(std::make_shared<ThreadCommunicator>(group, r));
  return ranks;
}

}  // namespace canter
