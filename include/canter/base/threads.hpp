#pragma once
// Worker threads as the rest of canter sees them. The interface is plain C++, so that code which
// can also run alone (an MLP policy on a robot) needs no thread library to link; make_threads gives
// the oneTBB implementation of canter::core.

#include <memory>
#include <type_traits>

namespace canter {

/// A fixed number of threads, the caller's included. One object may be shared by pool and policy;
/// one parallel_for runs at a time per object (a second caller waits).
class Threads {
 public:
  virtual ~Threads() = default;

  /// Threads that take part, the caller's included; >= 1.
  virtual int size() const noexcept = 0;

  /// Runs body(i) for i in [0, count), in any order on any of the threads; returns when all are
  /// done. An exception of a body is rethrown after all others finished (the one with the lowest
  /// i). Allocates nothing after the first calls.
  template <class Body>
  void parallel_for(int count, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run(
        count, [](void* b, int i) { (*static_cast<Plain*>(b))(i); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

  /// While one lives, workers stay awake between calls of parallel_for (they spin briefly, then
  /// yield), which makes it cost about a microsecond: for many short sections in a row.
  class Session {
   public:
    explicit Session(Threads& threads) : threads_(threads) { threads_.begin_session(); }
    ~Session() { threads_.end_session(); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

   private:
    Threads& threads_;
  };

 protected:
  virtual void run(int count, void (*body)(void*, int), void* data) = 0;
  virtual void begin_session() = 0;
  virtual void end_session() = 0;
};

/// Cores this process may use: the smaller of its affinity mask and its cgroup CPU quota (v1, v2).
int usable_cores();

/// Threads by oneTBB. 0: usable_cores(); an explicit number is taken as it is (it may exceed the
/// cores). The environment variables of OpenMP are not read.
/// @throws InvalidArgument if num_threads < 0 or > 1024.
std::shared_ptr<Threads> make_threads(int num_threads = 0);

/// The caller's thread alone; links without oneTBB.
std::shared_ptr<Threads> make_single_thread();

}  // namespace canter
