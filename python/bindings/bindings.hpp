#pragma once
// What the translation units of canter._core share: who binds what, and the Python-side owners of
// pools, policies and trainers. Everything checks its arguments here, releases the GIL, and calls
// C++; no algorithm lives in the bindings.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "canter/env/pool.hpp"
#include "canter/ppo/policy.hpp"

namespace canter::python {

namespace py = pybind11;

void bind_errors(py::module_& m);
void bind_options(py::module_& m);
void bind_spec(py::module_& m);
void bind_step_result(py::module_& m);
void bind_pool(py::module_& m);
void bind_policy(py::module_& m);
void bind_report(py::module_& m);
void bind_trainer(py::module_& m);
void bind_run(py::module_& m);
void bind_system(py::module_& m);

/// Releases the GIL while it lives. When the interpreter ends meanwhile, CPython (before 3.14) ends
/// the thread that asks for the GIL by unwinding its stack, which destructors do not survive: such
/// a daemon thread sleeps instead until the process is gone.
class ReleasedGil {
 public:
  ReleasedGil() { give(); }
  ~ReleasedGil() { take(); }
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

  /// Between take() and give() Python may be used.
  void take() noexcept {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    }
  }
  void give() noexcept { state_ = PyEval_SaveThread(); }

 private:
  PyThreadState* state_ = nullptr;
};

/// A pool as Python holds it: empty after close(). Hidden, as the types of pybind11 are. The C++
/// pool lives on while a trainer or a call in another thread still uses it.
class [[gnu::visibility("hidden")]] PyPool {
 public:
  explicit PyPool(std::shared_ptr<EnvPool> pool) : pool_(std::move(pool)) {}
  ~PyPool() {
    close();
  }

  /// The pool. @throws Error after close().
  std::shared_ptr<EnvPool> get() const;
  bool closed() const noexcept {
    return pool_ == nullptr;
  }
  /// Drops the pool; without the GIL, since its destructor may wait for threads.
  void close();

  /// The named zero-copy buffers (a StepResult), made at first use.
  py::object buffers;

 private:
  std::shared_ptr<EnvPool> pool_;
};

/// A policy as Python holds it. Calls wait for each other, so that a thread that monitors a
/// training run may ask its policy for actions.
class PyPolicy {
 public:
  PyPolicy(std::shared_ptr<Policy> policy, std::uint64_t seed)
      : policy(std::move(policy)), seed(seed) {}
  virtual ~PyPolicy() = default;

  std::shared_ptr<Policy> policy;
  std::uint64_t seed;                        ///< of sampled actions
  std::atomic<std::uint32_t> num_calls = 0;  ///< of act with sampling: the position in the stream
  std::mutex mutex;                          ///< held, without the GIL, by whoever uses `policy`
};

/// The multilayer perceptrons of canter::core.
class PyMlpPolicy : public PyPolicy {
 public:
  using PyPolicy::PyPolicy;
};

/// Wraps a policy in the Python class of its kind.
std::shared_ptr<PyPolicy> wrap_policy(std::shared_ptr<Policy> policy, std::uint64_t seed);

/// A Python object that is an instance of T's class: signatures and stubs say so.
template <class T>
class [[gnu::visibility("hidden")]] Instance
    : public py::
      object{public : explicit Instance(py::object object) : py::object(std::move(object)){}};

/// A Python object of several possible types.
class [[gnu::visibility("hidden")]] Anything
    : public py::object{public : Anything(py::object object) : py::object(std::move(object)){}};

/// Makes copy, deepcopy and pickle of a class raise TypeError with this sentence.
template <class Class>
void refuse_copies(Class& cls, const char* sentence) {
  cls.def(
      "__reduce_ex__",
      [sentence](const py::object&, const py::object&) -> py::object {
        throw py::type_error(sentence);
      },
      py::arg("protocol"), "Refuses: handles of native objects are neither pickled nor copied.");
}

}  // namespace canter::python

namespace pybind11::detail {
template <class T>
struct handle_type_name<canter::python::Instance<T>> {
  static constexpr auto name = make_caster<T>::name;
};
template <>
struct handle_type_name<canter::python::Anything> {
  static constexpr auto name = const_name("typing.Any");
};
}  // namespace pybind11::detail
