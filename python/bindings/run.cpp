// Runs for Python: everything that defines one, presets, config.toml; and evaluation.

#include "canter/run.hpp"

#include "arrays.hpp"
#include "canter/evaluate.hpp"
#include "options.hpp"
#include "trainer.hpp"

namespace canter::python {
namespace {

py::dict values_of(const RunOptions& run) {
  py::dict values;
  for (const auto& [name, value] : option_values(run)) values[name.c_str()] = to_python(value);
  return values;
}

RunOptions make_run_options(const std::string& env, const std::string& preset_name,
                            const py::kwargs& values) {
  RunOptions run = preset_name.empty() ? RunOptions{.env = env} : preset(preset_name, env);
  for (const auto& [key, value] : values) {
    const auto name = py::cast<std::string>(key);
    set_option(run, name, to_option_value(name, value));
  }
  return run;
}

// pool and policy stay alive with the trainer that owns them
std::shared_ptr<PyTrainer> make_run_trainer(const RunOptions& run) {
  std::shared_ptr<Trainer> trainer;
  {
    const ReleasedGil released;
    trainer = make_trainer(run);
  }
  auto pool = std::make_unique<PyPool>(std::shared_ptr<EnvPool>(trainer, &trainer->pool()));
  auto policy = wrap_policy(std::shared_ptr<Policy>(trainer, &trainer->policy()), run.trainer.seed);
  return std::make_shared<PyTrainer>(trainer, py::cast(std::move(pool)), py::cast(policy));
}

Evaluation evaluate_policy(PyPool& pool, PyPolicy& policy, const EvaluateOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto native = pool.get();
  Evaluation result;
  bool interrupted = false;
  {
    ReleasedGil gil;
    const std::lock_guard lock(policy.mutex);
    // Ctrl-C is looked for a few times per second
    Clock::time_point looked = Clock::now();
    const auto keep_going = [&] {
      if (Clock::now() - looked < std::chrono::milliseconds(100)) return true;
      looked = Clock::now();
      gil.take();
      interrupted = PyErr_CheckSignals() != 0;
      gil.give();
      return !interrupted;
    };
    result = evaluate(*native, *policy.policy, options, keep_going);
  }
  if (interrupted) throw py::error_already_set();
  return result;
}

void bind_evaluation(py::module_& m) {
  py::class_<Evaluation>(m, "Evaluation", "Result of an evaluation.")
      .def_property_readonly(
          "returns", [](const Evaluation& e) { return copy_of(std::span(e.returns)); },
          "float32[episodes], environment by environment.")
      .def_property_readonly(
          "lengths", [](const Evaluation& e) { return copy_of(std::span(e.lengths)); },
          "int32[episodes], steps.")
      .def_readonly("return_mean", &Evaluation::return_mean)
      .def_readonly("return_std", &Evaluation::return_std, "Sample standard deviation.")
      .def_readonly("return_low", &Evaluation::return_low,
                    "Lower end of the 95 % confidence interval of the mean (Student's t).")
      .def_readonly("return_high", &Evaluation::return_high, "Upper end of it.")
      .def_readonly("length_mean", &Evaluation::length_mean, "Mean episode length [steps].")
      .def("__repr__", [](const Evaluation& e) {
        return py::str(
                   "Evaluation({:.4g} +- {:.4g}, 95 % of the mean: {:.4g} .. {:.4g}, "
                   "{} episodes of {:.4g} steps)")
            .format(e.return_mean, e.return_std, e.return_low, e.return_high, e.returns.size(),
                    e.length_mean);
      });
  m.def("evaluate", evaluate_policy, py::arg("pool"), py::arg("policy"), py::arg("options"),
        "Runs full episodes with frozen normalisers; each environment has its quota in advance.");
}

}  // namespace

void bind_run(py::module_& m) {
  bind_evaluation(m);
  py::class_<RunOptions> cls(m, "RunOptions",
                             "Everything that defines a run, by flat option names.");
  cls.def(py::init(&make_run_options), py::arg("env"), py::arg("preset") = "",
          "The preset's options, or the defaults, with the given ones on top.");
  cls.def(
      "set",
      [](RunOptions& run, const std::string& name, const py::object& value) {
        set_option(run, name, to_option_value(name, value));
      },
      py::arg("name"), py::arg("value"), "Sets an option; `seed` sets pool, policy and trainer.");
  cls.def("to_dict", values_of, "All options by name.");
  cls.def_readonly("env", &RunOptions::env, "Name of the task.");
  cls.def_property_readonly(
      "directory", [](const RunOptions& run) { return run.trainer.directory; },
      "Run directory; '': nothing is written.");
  cls.def_readonly("preset", &RunOptions::preset, "Name of the preset, or ''.");
  cls.def(
      "save",
      [](const RunOptions& run, const std::filesystem::path& path) { save_config(path, run); },
      py::arg("path"), "Writes config.toml.");
  cls.def_static(
      "load", [](const std::filesystem::path& path) { return load_config(path); }, py::arg("path"),
      "Reads config.toml.");
  cls.def("__eq__", [](const RunOptions& a, const py::object& b) {
    return py::isinstance<RunOptions>(b) &&
           option_values(a) == option_values(py::cast<RunOptions>(b));
  });
  cls.attr("__hash__") = py::none();
  cls.def("__repr__", [](const RunOptions& run) {
    return "RunOptions(" + std::string(py::repr(values_of(run))) + ')';
  });
  m.def(
      "resolve_run",
      [](const std::string& env, const std::string& preset_name, const py::dict& arguments) {
        OptionValues values;
        for (const auto& [key, value] : arguments) {
          auto name = py::cast<std::string>(key);
          auto option = to_option_value(name, value);
          values.emplace_back(std::move(name), std::move(option));
        }
        return resolve_run(env, preset_name, values);
      },
      py::arg("env"), py::arg("preset"), py::arg("arguments"),
      "Arguments over the preset over the defaults; a run saved in the directory wins, and an "
      "argument that differs from it is refused.");
  m.def("preset_names", &preset_names, "Names of the presets.");
  m.def("make_trainer", make_run_trainer, py::arg("run"),
        "Builds pool, policy, communicator and trainer of a run.");
}

}  // namespace canter::python
