#include "canter/base/threads.hpp"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "canter/base/error.hpp"

namespace canter {
namespace {

// how often a waiting thread looks again before it lets others run
constexpr int kSpins = 2000;

// Work is handed out phase by phase: one atomic word holds which phase is open, how many bodies it
// has and the next one to run, so claiming a body is one compare-exchange, and a worker that
// arrives late, or never, costs nothing: the caller runs what nobody claimed.
class Ticket {
 public:
  static constexpr int kMaxCount = (1 << 20) - 1;

  void open(int count) noexcept {
    const std::uint64_t phase = (word_.load(std::memory_order_relaxed) >> 40) + 1;
    word_.store(phase << 40 | std::uint64_t(count) << 20, std::memory_order_release);
  }
  // the index of a body that nobody else will run, or -1
  int claim() noexcept {
    std::uint64_t word = word_.load(std::memory_order_acquire);
    while ((word & kMaxCount) < (word >> 20 & kMaxCount))
      if (word_.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel))
        return static_cast<int>(word & kMaxCount);
    return -1;
  }

 private:
  std::atomic<std::uint64_t> word_{0};
};

// looks busy for a moment, then yields
class Patience {
 public:
  void wait() noexcept {
    if (++spins_ < kSpins)
      __builtin_ia32_pause();
    else
      std::this_thread::yield();
  }
  void reset() noexcept { spins_ = 0; }

 private:
  int spins_ = 0;
};

class TbbThreads final : public Threads {
 public:
  explicit TbbThreads(int size) : size_(size), arena_(size, 1) {
    // oneTBB keeps to the machine's cores unless it is told otherwise
    using oneapi::tbb::global_control;
    if (static_cast<std::size_t>(size) >
        global_control::active_value(global_control::max_allowed_parallelism))
      limit_.emplace(global_control::max_allowed_parallelism, static_cast<std::size_t>(size));
  }

  // a task group's destructor throws when somebody still waits in it, which cannot be here
  ~TbbThreads() noexcept override {}

  int size() const noexcept override { return size_; }

 protected:
  void run(int count, void (*body)(void*, int), void* data) override {
    if (count <= 0) return;
    std::lock_guard lock(run_mutex_);
    if (size_ == 1 || count == 1) {
      run_phases(count, body, data);
      return;
    }
    const Session awake(*this);
    run_phases(count, body, data);
  }

  void begin_session() override {
    std::lock_guard lock(session_mutex_);
    if (++num_sessions_ > 1 || size_ == 1) return;
    closed_.store(false, std::memory_order_release);
    arena_.execute([this] {
      for (int i = 1; i < size_; ++i) workers_.run([this] { serve(); });
    });
  }

  void end_session() override {
    std::lock_guard lock(session_mutex_);
    if (--num_sessions_ > 0 || size_ == 1) return;
    closed_.store(true, std::memory_order_release);
    arena_.execute([this] { workers_.wait(); });
  }

 private:
  // a worker's life within a session
  void serve() noexcept {
    Patience patience;
    while (!closed_.load(std::memory_order_acquire)) {
      if (work())
        patience.reset();
      else
        patience.wait();
    }
  }

  // runs bodies of the open phase until all are claimed; true if there was one
  bool work() noexcept {
    bool any = false;
    for (int i = ticket_.claim(); i >= 0; i = ticket_.claim()) {
      any = true;
      try {
        body_(data_, i);
      } catch (...) {
        std::lock_guard lock(error_mutex_);
        if (!error_ || i < error_index_) {
          error_ = std::current_exception();
          error_index_ = i;
        }
      }
      num_done_.fetch_add(1, std::memory_order_acq_rel);
    }
    return any;
  }

  void run_phases(int count, void (*body)(void*, int), void* data) {
    // more bodies than a ticket can number go in several phases
    struct Shifted {
      void (*body)(void*, int);
      void* data;
      int first;
    };
    for (int first = 0; first < count; first += Ticket::kMaxCount) {
      Shifted shifted{body, data, first};
      run_phase(
          std::min(count - first, Ticket::kMaxCount),
          [](void* s, int i) {
            const auto& shift = *static_cast<Shifted*>(s);
            shift.body(shift.data, shift.first + i);
          },
          &shifted);
    }
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  void run_phase(int count, void (*body)(void*, int), void* data) noexcept {
    body_ = body;
    data_ = data;
    num_done_.store(0, std::memory_order_relaxed);
    ticket_.open(count);
    work();
    Patience patience;
    while (num_done_.load(std::memory_order_acquire) < count) patience.wait();
  }

  int size_;
  std::optional<oneapi::tbb::global_control> limit_;
  oneapi::tbb::task_arena arena_;
  oneapi::tbb::task_group workers_;

  std::mutex run_mutex_;      // one parallel_for at a time
  std::mutex session_mutex_;  // guards num_sessions_ and the start and end of workers
  int num_sessions_ = 0;
  std::atomic<bool> closed_{true};

  // the open phase
  Ticket ticket_;
  void (*body_)(void*, int) = nullptr;
  void* data_ = nullptr;
  std::atomic<int> num_done_{0};

  std::mutex error_mutex_;
  std::exception_ptr error_;
  int error_index_ = 0;
};

}  // namespace

std::shared_ptr<Threads> make_threads(int num_threads) {
  if (num_threads < 0 || num_threads > 1024)
    throw InvalidArgument("num_threads must be in [0, 1024] (0: the usable cores), got " +
                          std::to_string(num_threads));
  return std::make_shared<TbbThreads>(num_threads == 0 ? usable_cores() : num_threads);
}

}  // namespace canter
