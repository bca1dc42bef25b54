// The options structs of canter::core.

#include "options.hpp"

#include "canter/checkpoint/store.hpp"
#include "canter/env/pool.hpp"
#include "canter/evaluate.hpp"
#include "canter/ppo/mlp_policy.hpp"
#include "canter/ppo/ppo.hpp"

namespace canter::python {

void bind_options(py::module_& m) {
  bind_options_struct<PoolOptions>(m, "PoolOptions", "Options of a pool of environments.");
  bind_options_struct<MlpPolicyOptions>(m, "MlpPolicyOptions", "Options of an MLP policy.");
  bind_options_struct<PpoOptions>(m, "PpoOptions", R"(Options of PPO.

Examples:
    >>> import canter
    >>> options = canter.PpoOptions(horizon=32, learning_rate=3e-4)
    >>> options.horizon, options.learning_rate
    (32, 0.0003)
    >>> canter.PpoOptions(horizn=32)
    Traceback (most recent call last):
    ...
    canter._core.InvalidArgument: unknown option "horizn"; did you mean "horizon"?
)");
  bind_options_struct<CheckpointOptions>(m, "CheckpointOptions", "Options of a checkpoint store.");
  bind_options_struct<EvaluateOptions>(m, "EvaluateOptions", "Options of an evaluation.");
}

}  // namespace canter::python
