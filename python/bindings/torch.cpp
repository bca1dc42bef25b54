// canter._torch: policies over LibTorch modules. The one binding that sees LibTorch; loaded on
// first use, after torch and canter._core.

#include "canter/ppo/torch_policy.hpp"

#include "bindings.hpp"
#include "options.hpp"

namespace canter::python {
namespace {

class PyTorchPolicy : public PyPolicy {
 public:
  using PyPolicy::PyPolicy;
};

// an MLP as a LibTorch module; the options that both kinds of policy have go to both
std::shared_ptr<PyTorchPolicy> make_torch_mlp_policy(const Spec& spec, const py::object& seed,
                                                     const py::kwargs& values) {
  MlpPolicyOptions network;
  set_options(network, values);
  TorchPolicyOptions options;
  const std::vector<std::string> common = option_names<TorchPolicyOptions>();
  for (const auto& [name, value] : option_values(network))
    if (std::find(common.begin(), common.end(), name) != common.end())
      set_option(options, name, value);
  const std::uint64_t chosen = to_seed(seed);
  const ReleasedGil released;
  const auto factory = [&] { return make_torch_mlp(spec, network, chosen); };
  return std::make_shared<PyTorchPolicy>(make_torch_policy(spec, factory, options, chosen), chosen);
}

}  // namespace
}  // namespace canter::python

PYBIND11_MODULE(_torch, m) {
  using namespace canter::python;
  m.doc() = "Policies over LibTorch modules.";
  // the base class of what is bound here
  py::module_::import("canter._core");
  py::class_<PyTorchPolicy, PyPolicy, std::shared_ptr<PyTorchPolicy>> cls(
      m, "TorchPolicy", py::release_gil_before_calling_cpp_dtor(),
      "MlpPolicy's networks as a LibTorch module, trained by autograd: slower, and the oracle of "
      "MlpPolicy's gradients.");
  cls.def(py::init(&make_torch_mlp_policy), py::arg("spec"), py::kw_only(), py::arg("seed") = 0,
          R"(Makes a policy with the initial weights that MlpPolicy has.

Args:
    spec: Sizes and bounds, for example `pool.spec`.
    seed: Of the weights and of sampled actions.
    **options: As in MlpPolicyOptions: hidden, activation, shared_trunk, ...
)");
  refuse_copies(cls,
                "a TorchPolicy cannot be pickled or copied: make another one and assign its "
                "parameters, or save the run");
}
