#pragma once
// A trainer as Python holds it.

#include <functional>
#include <memory>
#include <mutex>

#include "bindings.hpp"
#include "canter/trainer.hpp"

namespace canter::python {

/// Holds the C++ trainer and the Python objects of its pool and policy. Calls from a second thread
/// raise Error at once; the policy's own lock is held while the trainer runs, so that
/// policy.act from another thread waits for the iteration to end.
class [[gnu::visibility("hidden")]] PyTrainer {
 public:
  PyTrainer(std::shared_ptr<Trainer> trainer, py::object pool, py::object policy);
  ~PyTrainer();

  /// The trainer. @throws Error after close().
  Trainer& get() const;
  bool closed() const noexcept {
    return trainer_ == nullptr;
  }
  /// Waits for a save in flight, gives the pool back.
  void close();

  Report iterate();
  bool train(const py::object& callback, double max_seconds);
  void save();
  bool resume();
  std::string digest();

  const py::object pool, policy;

 private:
  class Busy;

  std::shared_ptr<Trainer> trainer_;
  std::shared_ptr<PyPolicy> policy_handle_;
  std::mutex mutex_;
};

}  // namespace canter::python
