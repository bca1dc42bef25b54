// canter._core: pools, policies and trainers for Python, without LibTorch.

#include "bindings.hpp"
#include "canter/base/error.hpp"

namespace canter::python {

void bind_errors(py::module_& m) {
  // bases before the derived: translators are asked in reverse order of registration
  static py::exception<Error> error(m, "Error", PyExc_RuntimeError);
  error.doc() = "Base of all exceptions raised by canter.";
  static py::exception<InvalidArgument> invalid(
      m, "InvalidArgument", py::make_tuple(error, py::handle(PyExc_ValueError)));
  invalid.doc() = "An argument is wrong; the message gives the value and what was expected.";
  static py::exception<ModelError> model(m, "ModelError", error);
  model.doc() = "A MuJoCo model cannot be loaded, compiled or used.";
  static py::exception<EnvError> env(m, "EnvError", error);
  env.doc() = "An environment failed; `index` says which.";
  static py::exception<CheckpointError> checkpoint(m, "CheckpointError", error);
  checkpoint.doc() = "A checkpoint or policy file is missing, damaged, or does not fit.";
  static py::exception<CommunicationError> communication(m, "CommunicationError", error);
  communication.doc() = "A collective failed or timed out; names the rank and the operation.";

  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const EnvError& e) {
      py::object instance = py::handle(env)(e.what());
      instance.attr("index") = e.index();
      PyErr_SetObject(env.ptr(), instance.ptr());
    } catch (const InvalidArgument& e) {
      py::set_error(invalid, e.what());
    } catch (const ModelError& e) {
      py::set_error(model, e.what());
    } catch (const CheckpointError& e) {
      py::set_error(checkpoint, e.what());
    } catch (const CommunicationError& e) {
      py::set_error(communication, e.what());
    } catch (const Error& e) {
      py::set_error(error, e.what());
    }
  });
}

}  // namespace canter::python

PYBIND11_MODULE(_core, m) {
  using namespace canter::python;
  m.doc() = "Vectorised MuJoCo pools, PPO and checkpoints: the compiled part of canter.";
  bind_errors(m);
  bind_options(m);
  bind_spec(m);
  bind_step_result(m);
  bind_pool(m);
  bind_policy(m);
  bind_report(m);
  bind_trainer(m);
  bind_run(m);
  bind_system(m);
}
