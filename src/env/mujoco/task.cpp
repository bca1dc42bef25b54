#include "canter/env/mujoco/task.hpp"

#include "base/memory.hpp"
#include "canter/base/error.hpp"
#include "env/mujoco/shard.hpp"

namespace canter::mujoco::detail {
namespace {

// contradictions between what the task says and what the model has
void check(const Spec& spec, const TaskType& type, const mjModel& model) {
  if (!type.writes_ctrl) {
    if (spec.is_discrete())
      throw InvalidArgument(type.name + ": a task with a discrete action needs before_step");
    if (spec.action_size() != model.nu)
      throw InvalidArgument(type.name + ": action.size must be the model's number of controls, " +
                            std::to_string(model.nu) + ", or the task must have before_step; got " +
                            std::to_string(spec.action_size()));
  }
  canter::detail::check_metrics(spec, type.measures, type.name);
}

}  // namespace

std::shared_ptr<EnvPool> make_task_pool(const Model& model, Spec spec, PoolOptions options,
                                        const TaskType& type) {
  canter::check(spec);
  check(spec, type, *model);
  if (spec.step_seconds == 0) spec.step_seconds = spec.frame_skip * model->opt.timestep;
  if (!bookkeeping_outside_state(*model).empty()) options.persistent = true;
  // before anything is built: the rows of state outweigh the pool's own
  canter::detail::check_memory("num_envs = " + std::to_string(options.num_envs),
                               static_cast<double>(mj_stateSize(model.get(), mjSTATE_INTEGRATION)) *
                                   sizeof(mjtNum) * options.num_envs);
  const bool persistent = options.persistent;
  auto make_shard = [&](int, int count) -> std::unique_ptr<Shard> {
    return std::make_unique<TaskShard>(model, spec, count, persistent, type.make_list(count));
  };
  return std::make_shared<EnvPool>(type.name, spec, std::move(options), nullptr, make_shard);
}

}  // namespace canter::mujoco::detail
