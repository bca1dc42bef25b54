// Policies for Python: NumPy in, NumPy out, single rows or batches.

#include "canter/ppo/policy.hpp"

#include "arrays.hpp"
#include "canter/base/error.hpp"
#include "canter/policy_file.hpp"
#include "canter/ppo/mlp_policy.hpp"
#include "options.hpp"

namespace canter::python {
namespace {

// observations as float32[num_rows, observation_size], and whether it was a single row
struct Rows {
  Floats array;
  bool single;
  py::ssize_t count() const { return single ? 1 : array.shape(0); }
};

Rows to_rows(const Policy& policy, py::handle value) {
  const py::array array = to_array(value, "observation");
  const py::ssize_t width = policy.spec().observation_size;
  if (array.ndim() == 1) return {to_floats(array, {width}, "observation"), true};
  const py::ssize_t rows = array.ndim() == 2 ? array.shape(0) : 0;
  if (array.ndim() != 2 || array.shape(1) != width)
    throw InvalidArgument("observation must be float32[" + std::to_string(width) +
                          "] or float32[n, " + std::to_string(width) + "], got " + describe(array));
  return {to_floats(array, {rows, width}, "observation"), false};
}

Anything to_discrete(const Floats& actions, bool single) {
  if (single) return py::int_(static_cast<std::int64_t>(actions.at(0)));
  py::array_t<std::int64_t> integers(actions.size());
  for (py::ssize_t i = 0; i < actions.size(); ++i)
    integers.mutable_at(i) = static_cast<std::int64_t>(actions.data()[i]);
  return integers;
}

Anything act(PyPolicy& self, const py::object& observation, bool deterministic) {
  Policy& policy = *self.policy;
  const Rows rows = to_rows(policy, observation);
  const py::ssize_t width = policy.spec().action_size();
  Floats actions(rows.single ? Shape{width} : Shape{rows.count(), width});
  const std::uint32_t call = deterministic ? 0 : self.num_calls++;
  {
    const auto in = const_span(rows.array);
    const auto out = mutable_span(actions);
    const ReleasedGil released;
    const std::lock_guard lock(self.mutex);
    policy.act(
        {.observations = in, .seed = self.seed, .step = call, .deterministic = deterministic},
        {.env_actions = out});
  }
  if (policy.spec().is_discrete()) return to_discrete(actions, rows.single);
  return actions;
}

Anything value(PyPolicy& self, const py::object& observation) {
  const Rows rows = to_rows(*self.policy, observation);
  py::array_t<float> values(rows.count());
  {
    const auto in = const_span(rows.array);
    const auto out = mutable_span(values);
    const ReleasedGil released;
    const std::lock_guard lock(self.mutex);
    self.policy->value(in, out);
  }
  if (rows.single) return py::float_(values.at(0));
  return values;
}

// the C++ policy under its lock, waited for without the GIL
template <class Body>
auto locked(PyPolicy& self, Body&& body) {
  std::unique_lock lock(self.mutex, std::defer_lock);
  {
    const ReleasedGil released;
    lock.lock();
  }
  return body(*self.policy);
}

py::dict parameters(PyPolicy& self) {
  return locked(self, [](const Policy& policy) {
    py::dict arrays;
    for (const ParameterView& view : policy.parameter_views()) {
      py::array_t<float> array(Shape(view.shape.begin(), view.shape.end()));
      std::ranges::copy(policy.parameters().subspan(view.offset, view.size), array.mutable_data());
      arrays[view.name.c_str()] = array;
    }
    return arrays;
  });
}

void set_parameters(PyPolicy& self, const py::dict& arrays) {
  const std::vector<ParameterView> views = self.policy->parameter_views();
  std::vector<std::string> names;
  for (const ParameterView& view : views) names.push_back(view.name);
  for (const auto& [key, array] : arrays)
    if (const auto name = py::cast<std::string>(py::str(key)); std::ranges::count(names, name) == 0)
      throw_unknown("parameter", name, names);
  // everything is checked before anything changes
  std::vector<std::pair<ParameterView, Floats>> checked;
  for (const ParameterView& view : views)
    if (arrays.contains(view.name))
      checked.emplace_back(view, to_floats(arrays[view.name.c_str()],
                                           Shape(view.shape.begin(), view.shape.end()), view.name));
  locked(self, [&](Policy& policy) {
    for (const auto& [view, array] : checked)
      std::ranges::copy(const_span(array), policy.parameters().subspan(view.offset).begin());
    policy.parameters_changed();
    return 0;
  });
}

std::optional<py::dict> observation_moments(PyPolicy& self) {
  return locked(self, [](Policy& policy) -> std::optional<py::dict> {
    const RunningMoments* moments = policy.observation_moments();
    if (!moments) return std::nullopt;
    py::array_t<double> variance(moments->size());
    for (int i = 0; i < moments->size(); ++i) variance.mutable_at(i) = moments->variance(i);
    py::dict out;
    out["count"] = moments->count();
    out["mean"] = copy_of(moments->mean());
    out["variance"] = variance;
    return out;
  });
}

void save(PyPolicy& self, const std::filesystem::path& path) {
  const ReleasedGil released;
  const std::lock_guard lock(self.mutex);
  save_policy(path, *self.policy);
}

std::shared_ptr<PyPolicy> load(const std::filesystem::path& path) {
  const ReleasedGil released;
  return wrap_policy(load_policy(path), 0);
}

py::tuple get_state(PyMlpPolicy& self) {
  return locked(self, [&](const Policy& policy) {
    StateDict state;
    policy.save(state);
    return py::make_tuple(policy.spec(), mlp_options(policy), self.seed, self.num_calls.load(),
                          to_dict(state));
  });
}

std::shared_ptr<PyMlpPolicy> set_state(const py::tuple& t) {
  auto policy = make_mlp_policy(t[0].cast<Spec>(), t[1].cast<MlpPolicyOptions>());
  std::vector<py::array> keep;
  policy->load(to_state(t[4].cast<py::dict>(), keep));
  auto self = std::make_shared<PyMlpPolicy>(std::move(policy), t[2].cast<std::uint64_t>());
  self->num_calls = t[3].cast<std::uint32_t>();
  return self;
}

std::shared_ptr<PyMlpPolicy> make_mlp(const Spec& spec, const py::object& seed,
                                      const py::kwargs& values) {
  MlpPolicyOptions options;
  set_options(options, values);
  const std::uint64_t chosen = to_seed(seed);
  const ReleasedGil released;
  return std::make_shared<PyMlpPolicy>(make_mlp_policy(spec, options, chosen), chosen);
}

}  // namespace

std::shared_ptr<PyPolicy> wrap_policy(std::shared_ptr<Policy> policy, std::uint64_t seed) {
  if (policy->kind() == "mlp") return std::make_shared<PyMlpPolicy>(std::move(policy), seed);
  return std::make_shared<PyPolicy>(std::move(policy), seed);
}

void bind_policy(py::module_& m) {
  py::class_<PyPolicy, std::shared_ptr<PyPolicy>> cls(
      m, "Policy", py::release_gil_before_calling_cpp_dtor(),
      R"(A stochastic policy with a value function and its normalisers.

Calls from several threads wait for each other.

Examples:
    >>> import canter, numpy as np
    >>> pool = canter.make_pool("Pendulum-v1", num_envs=8)
    >>> policy = canter.MlpPolicy(pool.spec, hidden=[32], seed=1)
    >>> policy.act(pool.reset(), deterministic=True).shape
    (8, 1)
)");
  cls.def("act", act, py::arg("observation"), py::arg("deterministic") = false,
          R"(Actions for one observation or a batch of them, clipped to the action space.

Args:
    observation: float32[observation_size], or float32[n, observation_size]; raw, as the pool gives
        it: the policy normalises.
    deterministic: The mode of the distribution instead of a sample. Samples come from the policy's
        own stream: its seed and the number of sampling calls so far.

Returns:
    float32[action_size] or float32[n, action_size]; int or int64[n] for discrete actions.
)");
  cls.def("value", value, py::arg("observation"),
          "Value of one observation (a float) or of a batch (float32[n]), in units of the "
          "normalised reward.");
  cls.def_property(
      "parameters", parameters, set_parameters,
      "Parameters as {name: float32 array}, copies. Assign a dictionary of some or all "
      "of them to change them.");
  cls.def_property_readonly(
      "observation_moments", observation_moments,
      "{count, mean, variance} of the observation normaliser (copies), or None.");
  cls.def("save", save, py::arg("path"),
          "Writes one safetensors file that `Policy.load` and canter::load_policy read; after a "
          "crash the old or the new file is there.");
  cls.def_static("load", load, py::arg("path"),
                 "Reads a policy that acts exactly as the saved one did. Raises CheckpointError if "
                 "the file is missing or damaged.");
  cls.def_property_readonly("spec", [](const PyPolicy& self) { return self.policy->spec(); });
  cls.def_property_readonly(
      "kind", [](const PyPolicy& self) { return self.policy->kind(); }, "'mlp' or 'torch'.");
  cls.def_property_readonly("num_parameters", [](const PyPolicy& self) {
    return std::as_const(*self.policy).parameters().size();
  });

  py::class_<PyMlpPolicy, PyPolicy, std::shared_ptr<PyMlpPolicy>> mlp(
      m, "MlpPolicy", py::release_gil_before_calling_cpp_dtor(),
      R"(Multilayer perceptrons for policy and value: diagonal Gaussian for Box actions, categorical
for Discrete ones. Pickles and copies with its weights.)");
  mlp.def(py::init(&make_mlp), py::arg("spec"), py::kw_only(), py::arg("seed") = 0,
          R"(Makes a policy with orthogonal initial weights.

Args:
    spec: Sizes and bounds, for example `pool.spec`.
    seed: Of the weights and of sampled actions.
    **options: As in MlpPolicyOptions: hidden, activation, shared_trunk, ...
)");
  mlp.def_property_readonly("options",
                            [](const PyPolicy& self) { return mlp_options(*self.policy); });
  mlp.def("__repr__", [](const PyPolicy& self) {
    const Spec& spec = self.policy->spec();
    return "MlpPolicy(" + std::to_string(spec.observation_size) + " -> " +
           std::to_string(spec.is_discrete() ? std::get<Discrete>(spec.action).count
                                             : spec.action_size()) +
           ", hidden=" + std::string(py::repr(py::cast(mlp_options(*self.policy).hidden))) +
           ", parameters=" + std::to_string(std::as_const(*self.policy).parameters().size()) + ')';
  });
  mlp.def(py::pickle(&get_state, &set_state));
  m.def(
      "kernel_name", [] { return std::string(kernel_name()); },
      "Name of the kernels of MlpPolicy in use. Raises Error when this CPU lacks what they need.");
}

}  // namespace canter::python
