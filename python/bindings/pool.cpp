// EnvPool for Python: fresh arrays by default, zero-copy by name, the GIL released in every call
// that simulates.

#include "canter/env/pool.hpp"

#include "canter/base/error.hpp"
#include "canter/env/registry.hpp"
#include "options.hpp"
#include "step_result.hpp"

namespace canter::python {
std::shared_ptr<EnvPool> PyPool::get() const {
  if (!pool_) throw Error("this pool is closed; make another one with canter.make_pool");
  return pool_;
}

void PyPool::close() {
  std::shared_ptr<EnvPool> pool = std::move(pool_);
  pool_ = nullptr;
  buffers = py::object();
  const ReleasedGil released;
  pool.reset();
}

namespace {

py::ssize_t rows_of(const EnvPool& pool) {
  return pool.num_envs();
}

// actions as the pool wants them: float32[num_envs, action_size]; discrete ones come as int64
Floats to_actions(const EnvPool& pool, py::handle actions) {
  const Spec& spec = pool.spec();
  if (!spec.is_discrete())
    return to_floats(actions, {rows_of(pool), spec.action_size()}, "actions");
  const Integers integers = to_integers(actions, {rows_of(pool)}, "actions");
  Floats floats(integers.size());
  for (py::ssize_t i = 0; i < integers.size(); ++i)
    floats.mutable_at(i) = static_cast<float>(integers.at(i));
  return floats;
}

// a fresh result, or the caller's own
py::object result_for(const EnvPool& pool, const py::object& out) {
  if (out.is_none()) return py::cast(StepResult(pool.num_envs(), pool.spec()));
  if (!py::isinstance<StepResult>(out))
    throw InvalidArgument("out must be pool.buffers or another StepResult, got " +
                          std::string(py::str(py::type::of(out))));
  return out;
}

Instance<StepResult> step(PyPool& self, const py::object& actions, const py::object& out) {
  const auto pool = self.get();
  const Floats floats = to_actions(*pool, actions);
  py::object result = result_for(*pool, out);
  const StepView view = py::cast<StepResult&>(result).view(pool->num_envs(), pool->spec());
  {
    const auto span = const_span(floats);
    const ReleasedGil released;
    pool->step(span, view);
  }
  return Instance<StepResult>(std::move(result));
}

// an integer is the pool's seed, a list keys every environment by its own
void reset_with_seed(EnvPool& pool, const OptionValue& seed, const StepView& view) {
  PoolOptions options;
  const bool one = !std::holds_alternative<std::vector<std::int64_t>>(seed);
  set_option(options, one ? "seed" : "seeds", seed);
  const ReleasedGil released;
  if (one)
    pool.reset(options.seed, view);
  else
    pool.reset(std::span<const std::uint64_t>(options.seeds), view);
}

py::array_t<float> reset(PyPool& self, const py::object& seed, const py::object& mask,
                         const py::object& out) {
  const auto pool = self.get();
  py::object result = result_for(*pool, out);
  auto& arrays = py::cast<StepResult&>(result);
  const StepView view = arrays.view(pool->num_envs(), pool->spec());
  if (!mask.is_none()) {
    if (!seed.is_none()) throw InvalidArgument("reset takes a seed or a mask, not both");
    const Bytes flags = to_flags(mask, {rows_of(*pool)}, "mask");
    const auto span = const_span(flags);
    // rows outside the mask keep the observation they have
    if (out.is_none()) std::ranges::copy(pool->observations(), view.observations.begin());
    const ReleasedGil released;
    pool->reset(span, view);
  } else if (!seed.is_none()) {
    reset_with_seed(*pool, to_option_value("seed", seed), view);
  } else {
    const ReleasedGil released;
    pool->reset(view);
  }
  return arrays.observations;
}

py::array_t<float> reset_to(PyPool& self, int i, const py::object& qpos, const py::object& qvel) {
  const auto pool = self.get();
  // wrong lengths are refused by the pool, which knows the model
  const py::array positions = to_array(qpos, "qpos"), velocities = to_array(qvel, "qvel");
  const Doubles p = to_doubles(positions, {positions.size()}, "qpos");
  const Doubles v = to_doubles(velocities, {velocities.size()}, "qvel");
  py::array_t<float> observation(pool->spec().observation_size);
  {
    const auto position = const_span(p), velocity = const_span(v);
    const auto out = mutable_span(observation);
    const ReleasedGil released;
    pool->reset_to(i, position, velocity, out);
  }
  return observation;
}

py::array_t<float> observations(const PyPool& self) {
  const auto pool = self.get();
  py::array_t<float> out({pool->num_envs(), pool->spec().observation_size});
  std::ranges::copy(pool->observations(), out.mutable_data());
  return out;
}

Instance<StepResult> buffers(PyPool& self) {
  const auto pool = self.get();
  if (!self.buffers) self.buffers = result_for(*pool, py::none());
  return Instance<StepResult>(self.buffers);
}

py::dict save(const PyPool& self) {
  const auto pool = self.get();
  StateDict state;
  pool->save(state);
  return to_dict(state);
}

void load(PyPool& self, const py::dict& arrays) {
  const auto pool = self.get();
  std::vector<py::array> keep;
  const StateDict state = to_state(arrays, keep);
  const ReleasedGil released;
  pool->load(state);
}

std::string repr(const PyPool& self) {
  if (self.closed()) return "EnvPool(closed)";
  const auto pool = self.get();
  return "EnvPool(" + std::string(py::repr(py::str(pool->name()))) +
         ", num_envs=" + std::to_string(pool->num_envs()) +
         ", seed=" + std::to_string(pool->options().seed) +
         ", num_threads=" + std::to_string(pool->threads()->size()) + ')';
}

}  // namespace

void bind_pool(py::module_& m) {
  py::class_<PyPool> cls(m, "EnvPool",
                         R"(Many environments of one task, stepped together by C++ threads.

One call at a time: while a call runs in one thread, calls from others raise Error at once. Made by
`canter.make_pool`.

Examples:
    >>> import canter, numpy as np
    >>> pool = canter.make_pool("CartPole-v1", num_envs=4, seed=7)
    >>> pool.reset().shape
    (4, 4)
    >>> step = pool.step(np.zeros(4, dtype=np.int64))
    >>> step.rewards
    array([1., 1., 1., 1.], dtype=float32)
)");
  cls.def("reset", reset, py::arg("seed") = py::none(), py::arg("mask") = py::none(),
          py::arg("out") = py::none(), R"(Starts new episodes.

Args:
    seed: Restart under this seed: everything that follows equals a new pool with that seed. A
        list gives every environment a seed of its own.
    mask: bool[num_envs]; only these environments start a new episode.
    out: `pool.buffers`, to write there and allocate nothing.

Returns:
    Observations, float32[num_envs, observation_size].

Raises:
    InvalidArgument: For a seed that is no integer >= 0, or a mask of another shape or dtype.
)");
  cls.def("step", step, py::arg("actions"), py::arg("out") = py::none(),
          R"(Steps every environment once; episodes that end start anew in the same step.

Args:
    actions: float32[num_envs, action_size] for Box actions, int64[num_envs] for Discrete ones;
        any layout and any dtype that casts safely.
    out: `pool.buffers`, to write there and allocate nothing: its arrays are valid until the next
        step that is given them. Without it every array of the result is new.

Returns:
    StepResult: Observations, rewards, flags, and what ended.

Raises:
    InvalidArgument: For a wrong shape or dtype, or a discrete action out of range.
    EnvError: When an environment failed; the pool refuses until `reset()`.
)");
  cls.def_property_readonly("buffers", buffers,
                            "The pool's own StepResult for `step(actions, out=pool.buffers)`.");
  cls.def_property_readonly(
      "observations", observations,
      "Copy of the latest observations, float32[num_envs, observation_size].");
  cls.def(
      "state", [](const PyPool& self, int i) { return self.get()->state(i); }, py::arg("i"),
      "State of environment i. Raises InvalidArgument for simulators without one.");
  cls.def("reset_to", reset_to, py::arg("i"), py::arg("qpos"), py::arg("qvel"),
          R"(Starts a new episode of environment i from a given state.

Args:
    i: Index of the environment.
    qpos: float64[nq].
    qvel: float64[nv].

Returns:
    The observation, float32[observation_size].
)");
  cls.def("save", save, R"(Everything the next step depends on, as {name: array}; all are copies.

Examples:
    >>> import canter, numpy as np
    >>> pool = canter.make_pool("Pendulum-v1", num_envs=2)
    >>> _ = pool.reset()
    >>> saved = pool.save()
    >>> a = pool.step(np.ones((2, 1))).observations
    >>> pool.load(saved)
    >>> b = pool.step(np.ones((2, 1))).observations
    >>> bool((a == b).all())
    True
)");
  cls.def("load", load, py::arg("state"),
          "Continues from what `save()` gave. Raises CheckpointError if it does not fit; nothing "
          "changed then.");
  cls.def(
      "statistics", [](const PyPool& self) { return self.get()->statistics(); },
      "Totals since the pool was made.");
  cls.def("close", &PyPool::close, "Frees the environments; every later call raises Error.");
  cls.def_property_readonly("closed", &PyPool::closed);
  cls.def_property_readonly("spec", [](const PyPool& self) { return self.get()->spec(); });
  cls.def_property_readonly(
      "options", [](const PyPool& self) { return self.get()->options(); },
      "PoolOptions with every automatic value resolved.");
  cls.def_property_readonly("name", [](const PyPool& self) { return self.get()->name(); });
  cls.def_property_readonly("num_envs", [](const PyPool& self) { return self.get()->num_envs(); });
  cls.def_property_readonly(
      "num_threads", [](const PyPool& self) { return self.get()->threads()->size(); },
      "Threads in use, the caller's included.");
  cls.def("__enter__", [](py::object self) { return Instance<PyPool>(std::move(self)); });
  cls.def("__exit__", [](PyPool& self, const py::args&) { self.close(); });
  cls.def("__repr__", repr);
  refuse_copies(cls,
                "an EnvPool cannot be pickled or copied: pass pool.name and pool.options and "
                "call canter.make_pool there, then load(pool.save()) for its state");

  m.def(
      "make_pool",
      [](const std::string& name, const PoolOptions& options) {
        const ReleasedGil released;
        return std::make_unique<PyPool>(canter::make_pool(name, options));
      },
      py::arg("name"), py::arg("options"), "Builds a pool of a registered task.");
  m.def("registered_tasks", &registered_tasks,
        "Names that make_pool knows, in alphabetical order.");
  m.def(
      "model_file", [](const std::string& name) { return model_file(name); }, py::arg("name"),
      "Name of the model file a task needs, or '' if it needs none.");
}

}  // namespace canter::python
