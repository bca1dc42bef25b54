#pragma once
// Names of tasks and how to build pools of them. "HalfCheetah-v5" and its kin are there from the
// start; a program adds its own with register_task and then uses them by name wherever a name is
// taken (canter.make_pool, RunOptions::env, the command line).
//
//   auto pool = canter::make_pool("HalfCheetah-v5", {.num_envs = 64, .seed = 7});
//
// All functions here may be called from any thread at any time: one mutex guards the names, and it
// is not held while a factory runs.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "canter/env/pool.hpp"

namespace canter {

/// Builds a pool of one task. The options it gets have `model_path` resolved if the task was
/// registered with a model file.
using PoolFactory = std::function<std::shared_ptr<EnvPool>(const PoolOptions&)>;

/// Builds a pool of a registered task.
/// A task with a model file takes options.model_path (a file), else the first folder of the
/// colon-separated list $CANTER_ASSET_PATH that has the file.
/// @throws InvalidArgument for an unknown name (with the nearest match), an option out of range, or
///         a model file that is nowhere; ModelError when MuJoCo refuses the file.
std::shared_ptr<EnvPool> make_pool(std::string_view name, const PoolOptions& options = {});

/// All names in alphabetical order.
std::vector<std::string> registered_tasks();

/// Adds a task under a new name. `model_file`: name of the MJCF file that make_pool looks for
/// ("half_cheetah.xml"), or "" for a task that needs none.
/// @throws InvalidArgument if the name is empty or taken, or the factory is empty.
void register_task(std::string name, PoolFactory factory, std::string model_file = {});

/// Name of the model file a task needs, or "" if it needs none. Python finds that file in the
/// installed gymnasium package and passes it as model_path.
/// @throws InvalidArgument for an unknown name (with the nearest match).
std::string model_file(std::string_view name);

}  // namespace canter
