// Trainer for Python. The GIL is released in every iteration; signals are looked at between
// iterations, so that Ctrl-C ends a run at a boundary, saved.

#include "canter/trainer.hpp"

#include <sstream>

#include "arrays.hpp"
#include "canter/base/error.hpp"
#include "options.hpp"
#include "trainer.hpp"

namespace canter::python {
// both locks of a native section; made and ended with the GIL held
class PyTrainer::Busy {
 public:
  explicit Busy(PyTrainer& self) : lock_(self.mutex_, std::try_to_lock) {
    if (!lock_) throw Error("this trainer is running in another thread");
    trainer_ = self.trainer_;
    if (!trainer_) self.get();
    policy_lock_ = std::unique_lock(self.policy_handle_->mutex, std::defer_lock);
    const ReleasedGil released;
    policy_lock_.lock();
  }

  Trainer& trainer() { return *trainer_; }

  // lets Python in while a callback runs; called without the GIL
  void pause() {
    policy_lock_.unlock();
    lock_.unlock();
  }
  void resume() {
    lock_.lock();
    policy_lock_.lock();
  }

 private:
  std::shared_ptr<Trainer> trainer_;  // survives close() in a callback
  std::unique_lock<std::mutex> lock_, policy_lock_;
};

PyTrainer::PyTrainer(std::shared_ptr<Trainer> trainer, py::object pool_object,
                     py::object policy_object)
    : pool(std::move(pool_object)),
      policy(std::move(policy_object)),
      trainer_(std::move(trainer)),
      policy_handle_(py::cast<std::shared_ptr<PyPolicy>>(policy)) {}

// a save in flight is waited for without the GIL
PyTrainer::~PyTrainer() {
  const ReleasedGil released;
  trainer_.reset();
}

Trainer& PyTrainer::get() const {
  if (!trainer_) throw Error("this trainer is closed; make another one and resume() it");
  return *trainer_;
}

void PyTrainer::close() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) throw Error("this trainer is running in another thread: stop() it first");
  std::shared_ptr<Trainer> trainer = std::move(trainer_);
  trainer_ = nullptr;
  const ReleasedGil released;
  trainer.reset();
}

Report PyTrainer::iterate() {
  Busy busy(*this);
  Report report;
  {
    const ReleasedGil released;
    report = busy.trainer().iterate();
  }
  // Ctrl-C during the iteration: leave a saved run behind
  if (PyErr_CheckSignals() != 0) {
    py::error_already_set interrupt;
    if (!busy.trainer().options().directory.empty()) {
      const ReleasedGil released;
      busy.trainer().save();
    }
    throw interrupt;
  }
  return report;
}

namespace {

// what the callback answers; a signal or an exception is an answer too
bool ask(const py::object& callback, const Report& report,
         std::optional<py::error_already_set>& error) {
  try {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    return callback.is_none() || !callback(report).is(py::bool_(false));
  } catch (py::error_already_set& e) {
    error.emplace(e);
  } catch (py::builtin_exception& e) {
    e.set_error();
    error.emplace();
  }
  return false;
}

}  // namespace

bool PyTrainer::train(const py::object& callback, double max_seconds) {
  Busy busy(*this);
  std::optional<py::error_already_set> error;
  bool done = false;
  {
    ReleasedGil gil;
    // an exception or signal ends the run at this boundary as a stop does; it is raised after the
    // save
    const auto ask_python = [&](const Report& report) {
      busy.pause();
      gil.take();
      // a callback that closes the trainer is done with it
      const bool go_on = ask(callback, report, error) && !closed();
      gil.give();
      busy.resume();
      return go_on;
    };
    done = busy.trainer().train(ask_python, max_seconds);
  }
  if (error) throw *error;
  return done;
}

void PyTrainer::save() {
  Busy busy(*this);
  const ReleasedGil released;
  busy.trainer().save();
}

bool PyTrainer::resume() {
  Busy busy(*this);
  const ReleasedGil released;
  return busy.trainer().resume();
}

std::string PyTrainer::digest() {
  Busy busy(*this);
  const ReleasedGil released;
  return busy.trainer().digest();
}

namespace {

template <class T>
T& checked(const py::object& object, const char* name, const char* expected) {
  if (!py::isinstance<T>(object))
    throw InvalidArgument(std::string(name) + " must be " + expected + ", got " +
                          std::string(py::repr(object)));
  return py::cast<T&>(object);
}

// options by their flat names; ppo and checkpoint also as a whole
TrainerOptions to_trainer_options(const EnvPool& pool, const py::kwargs& values) {
  TrainerOptions options;
  options.seed = pool.options().seed;
  if (values.contains("ppo"))
    options.ppo = checked<PpoOptions>(values["ppo"], "ppo", "a PpoOptions");
  if (values.contains("checkpoint"))
    options.checkpoint =
        checked<CheckpointOptions>(values["checkpoint"], "checkpoint", "a CheckpointOptions");
  for (const auto& [key, value] : values) {
    const auto name = py::cast<std::string>(key);
    const bool absent = name == "directory" && value.is_none();
    if (name != "ppo" && name != "checkpoint" && !absent)
      set_option(options, name, to_option_value(name, value));
  }
  return options;
}

std::shared_ptr<PyTrainer> make_trainer_over(const py::object& pool, const py::object& policy,
                                             const py::kwargs& values) {
  const auto native_pool = checked<PyPool>(pool, "pool", "an EnvPool").get();
  const auto native_policy = checked<PyPolicy>(policy, "policy", "a Policy").policy;
  const TrainerOptions options = to_trainer_options(*native_pool, values);
  std::shared_ptr<Trainer> trainer;
  {
    const ReleasedGil released;
    trainer = std::make_shared<Trainer>(native_pool, native_policy,
                                        Communicator::from_environment(), options);
  }
  return std::make_shared<PyTrainer>(std::move(trainer), pool, policy);
}

constexpr const char* kInitDoc =
    R"(__init__(self: canter._core.Trainer, pool: EnvPool, policy: Policy, *, ppo: PpoOptions = ..., directory: str | os.PathLike | None = None, total_steps: int = 0, seed: int = ..., save_interval_seconds: float = 60.0, checkpoint: CheckpointOptions = ..., **options: typing.Any) -> None

Makes a trainer; the pool starts its first episodes, nothing else runs yet.

Args:
    pool: Environments; held by the trainer from now on.
    policy: What is trained, in place.
    ppo: Options of the learner.
    directory: Run directory; None: nothing is written.
    total_steps: Environment steps of the whole run, for train() and schedules; 0: no end.
    seed: Of action sampling and minibatch order. Default: the pool's.
    save_interval_seconds: Between checkpoints [s]; 0: every iteration; < 0: only save().
    checkpoint: How many checkpoints are kept, and whether they are written in the background.
    **options: Single options of PpoOptions and CheckpointOptions by name.

Raises:
    InvalidArgument: When pool and policy do not fit each other, or for a bad option.
    Error: When another trainer holds the pool.
)";

void bind_methods(py::class_<PyTrainer, std::shared_ptr<PyTrainer>>& cls) {
  cls.def("iterate", &PyTrainer::iterate, R"(One rollout, update and report; saves when it is time.

Ctrl-C during it saves at its end and raises KeyboardInterrupt. After an exception the trainer
refuses until `resume()`; the last saved boundary is untouched.)");
  cls.def(
      "train", &PyTrainer::train, py::arg("callback") = py::none(), py::arg("max_seconds") = 0.0,
      R"(Iterates until total_steps, a stop, max_seconds or a callback that returns False; then saves.

Ctrl-C, and an exception of the callback, end it at the next iteration boundary: the run is saved
and can be resumed, then the exception is raised.

Args:
    callback: Called with the Report of each iteration; return False to stop. It may use the
        policy, for example to evaluate it.
    max_seconds: Limit of this call [s]; 0: none.

Returns:
    True when total_steps are reached.
)");
  cls.def("save", &PyTrainer::save,
          "Commits a checkpoint of the last iteration boundary and waits until it is durable.");
  cls.def("resume", &PyTrainer::resume, R"(Loads the newest valid checkpoint of the directory.

Returns:
    False when there is none.

Raises:
    CheckpointError: When all are damaged or one does not fit; nothing changed then.
)");
  cls.def(
      "stop", [](const PyTrainer& self) { self.get().request_stop(); },
      "Ends train() at the next iteration boundary; from any thread.");
  cls.def(
      "clear_stop", [](const PyTrainer& self) { self.get().clear_stop(); },
      "Takes a stop back: a stop holds for every later train() until then.");
  cls.def("close", &PyTrainer::close,
          "Waits for a save in flight and gives the pool back; later calls raise Error.");
  cls.def("digest", &PyTrainer::digest,
          "XXH3-128 of the whole state without times: equal runs have equal digests.");
}

}  // namespace

void bind_trainer(py::module_& m) {
  py::class_<PyTrainer, std::shared_ptr<PyTrainer>> cls(
      m, "Trainer",
      R"(Trains one policy on one pool with PPO; saves and resumes.

The pool belongs to the trainer until `close()`: its step and reset raise Error meanwhile.

Examples:
    >>> import canter
    >>> pool = canter.make_pool("CartPole-v1", num_envs=8, seed=1)
    >>> policy = canter.MlpPolicy(pool.spec, seed=1)
    >>> trainer = canter.Trainer(pool, policy, ppo=canter.PpoOptions(horizon=32, num_minibatches=4))
    >>> trainer.iterate().env_steps
    256
)");
  {
    // options have names and defaults that pybind11 does not see
    py::options docstrings;
    docstrings.disable_function_signatures();
    cls.def(py::init(&make_trainer_over), py::arg("pool"), py::arg("policy"), kInitDoc);
  }
  bind_methods(cls);
  cls.def_property_readonly(
      "env_steps", [](const PyTrainer& self) { return self.get().env_steps(); },
      "Environment steps so far, over all ranks.");
  cls.def_property_readonly("iteration",
                            [](const PyTrainer& self) { return self.get().iteration(); });
  cls.def_property_readonly("total_steps",
                            [](const PyTrainer& self) { return self.get().options().total_steps; });
  cls.def_property_readonly("directory",
                            [](const PyTrainer& self) { return self.get().options().directory; });
  cls.def_property_readonly("ppo", [](const PyTrainer& self) { return self.get().options().ppo; });
  cls.def_property_readonly(
      "state_bytes", [](const PyTrainer& self) { return self.get().state_bytes(); },
      "Bytes of the state that a checkpoint holds.");
  cls.def_property_readonly("stop_requested",
                            [](const PyTrainer& self) { return self.get().stop_requested(); });
  cls.def_property_readonly("closed", &PyTrainer::closed);
  cls.def_property_readonly(
      "pool", [](const PyTrainer& self) { return Instance<PyPool>(self.pool); },
      "The environments.");
  cls.def_property_readonly(
      "policy", [](const PyTrainer& self) { return Instance<PyPolicy>(self.policy); },
      "The policy that is trained.");
  cls.def("__repr__", [](const PyTrainer& self) {
    if (self.closed()) return std::string("Trainer(closed)");
    return "Trainer(" + std::string(py::repr(self.pool)) +
           ", env_steps=" + std::to_string(self.get().env_steps()) + ')';
  });
  refuse_copies(cls,
                "a Trainer cannot be pickled or copied: save() it and resume() another one from "
                "its directory, or pass its policy, which can");
}

}  // namespace canter::python
