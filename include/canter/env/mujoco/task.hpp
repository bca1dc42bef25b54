#pragma once
// Task: what a MuJoCo simulation's numbers mean. The pool owns the physics; a task says how an
// episode starts, what the reward is and what is observed. There is nothing to derive from.
//
//   class Balance {                                    // keep a pole on a cart upright
//    public:
//     canter::Spec spec(const mjModel&) const {
//       return {.observation_size = 4, .action = canter::Box{.size = 1, .low = -3, .high = 3},
//               .frame_skip = 2, .max_episode_steps = 1000};
//     }
//     void reset(canter::mujoco::Simulation& sim) {
//       for (double& x : sim.qpos()) x += sim.rng().uniform(-0.01, 0.01);
//     }
//     canter::Outcome after_step(const canter::mujoco::Simulation& sim, std::span<const float>) {
//       const bool upright = std::abs(sim.qpos()[1]) <= 0.2;
//       return {.reward = upright ? 1.0f : 0.0f, .terminated = !upright};
//     }
//     void observe(const canter::mujoco::Simulation& sim, std::span<float> out) const {
//       sim.copy_to(out, sim.qpos(), sim.qvel());
//     }
//   };
//   auto model = canter::mujoco::load_model("cartpole.xml");
//   auto pool = canter::mujoco::make_pool<Balance>(model, {.num_envs = 1024, .seed = 7});

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "canter/base/spec.hpp"
#include "canter/env/environment.hpp"
#include "canter/env/mujoco/model.hpp"
#include "canter/env/mujoco/simulation.hpp"
#include "canter/env/pool.hpp"
#include "canter/env/shard.hpp"
#include "canter/env/state_visitor.hpp"

namespace canter::mujoco {

/// A MuJoCo task. One object per environment. In the order in which the pool calls the hooks:
///   spec(model) const             sizes and bounds; the same for all objects
///   reset(sim)                    state is the model's default: write qpos, qvel, ...; then
///   mj_forward [after_reset(sim)]            everything is computed: take "before" quantities here
///   [before_step(sim, action)]    writes sim.ctrl(); default: the action itself
///   after_step(sim, action)       after Spec.frame_skip physics steps -> reward, terminated
///   [measure(sim, out) const]     fills Spec.metrics; only when the caller wants them
///   observe(sim, out) const       writes float[observation_size]; once per step and once per reset
/// and, when it has data members, `template <class Visitor> void state(Visitor&)` that lists those
/// which change (see state_visitor.hpp); without it the pool cannot be saved.
/// Hooks may throw: the pool reports the environment's index in an EnvError.
template <class T>
concept Task = std::movable<T> &&
    requires(T task, const T& view, const mjModel& model, Simulation& sim, const Simulation& seen,
             std::span<const float> action, std::span<float> out) {
  { view.spec(model) } -> std::convertible_to<Spec>;
  task.reset(sim);
  { task.after_step(seen, action) } -> std::convertible_to<Outcome>;
  view.observe(seen, out);
};

namespace detail {

/// The tasks of one shard behind an ordinary interface, so that the physics is compiled once.
class TaskList {
 public:
  virtual ~TaskList() = default;
  virtual void reset(int row, Simulation& sim) = 0;
  virtual void after_reset(int row, const Simulation& sim) = 0;
  virtual void before_step(int row, Simulation& sim, std::span<const float> action) = 0;
  virtual Outcome after_step(int row, const Simulation& sim, std::span<const float> action) = 0;
  virtual void measure(int row, const Simulation& sim, std::span<float> out) const = 0;
  virtual void observe(int row, const Simulation& sim, std::span<float> out) const = 0;
  virtual std::string refuses_save() const = 0;
  virtual std::vector<StateField> state_fields() const = 0;
  virtual void save(std::span<const std::span<std::byte>> fields) const = 0;
  virtual void load(std::span<const std::span<const std::byte>> fields) = 0;
};

template <Task T>
class TaskListOf final : public TaskList {
 public:
  explicit TaskListOf(std::vector<T> tasks) : tasks_(std::move(tasks)) {}

  void reset(int row, Simulation& sim) override { at(row).reset(sim); }
  void after_reset(int row, const Simulation& sim) override {
    if constexpr (requires(T & t) { t.after_reset(sim); }) at(row).after_reset(sim);
  }
  void before_step(int row, Simulation& sim, std::span<const float> action) override {
    if constexpr (requires(T & t) { t.before_step(sim, action); })
      at(row).before_step(sim, action);
    else {
      double* ctrl = sim.data().ctrl;
      for (const float a : action) *ctrl++ = static_cast<double>(a);
    }
  }
  Outcome after_step(int row, const Simulation& sim, std::span<const float> action) override {
    return at(row).after_step(sim, action);
  }
  void measure(int row, const Simulation& sim, std::span<float> out) const override {
    if constexpr (requires(const T& t) { t.measure(sim, out); }) at(row).measure(sim, out);
  }
  void observe(int row, const Simulation& sim, std::span<float> out) const override {
    at(row).observe(sim, out);
  }

  std::string refuses_save() const override {
    return canter::detail::refuses_save<T>(typeid(T).name());
  }
  std::vector<StateField> state_fields() const override {
    return canter::detail::state_fields(const_cast<T&>(tasks_.front()));
  }
  void save(std::span<const std::span<std::byte>> fields) const override {
    if constexpr (canter::detail::HasState<T>) {
      const int size = static_cast<int>(tasks_.size());
      for (int j = 0; j < size; ++j) {
        canter::detail::StateSaver saver(fields, j, size);
        const_cast<T&>(at(j)).state(saver);
      }
    }
  }
  void load(std::span<const std::span<const std::byte>> fields) override {
    if constexpr (canter::detail::HasState<T>) {
      const int size = static_cast<int>(tasks_.size());
      for (int j = 0; j < size; ++j) {
        canter::detail::StateLoader loader(fields, j, size);
        at(j).state(loader);
      }
    }
  }

 private:
  T& at(int row) { return tasks_[static_cast<std::size_t>(row)]; }
  const T& at(int row) const { return tasks_[static_cast<std::size_t>(row)]; }

  std::vector<T> tasks_;
};

/// What a pool needs to know of a task's type.
struct TaskType {
  std::string name;          ///< of the type
  bool writes_ctrl = false;  ///< has before_step
  bool measures = false;     ///< has measure
  std::function<std::unique_ptr<TaskList>(int count)> make_list;
};

/// The pool of a task whose spec is known. @throws InvalidArgument, ModelError.
std::shared_ptr<EnvPool> make_task_pool(const Model& model, Spec spec, PoolOptions options,
                                        const TaskType& type);

}  // namespace detail

/// A pool of tasks made by `factory(const mjModel&) -> T`, one per environment.
/// @throws InvalidArgument for bad options, or a spec that contradicts itself or the model.
/// @throws ModelError when MuJoCo cannot simulate the model.
template <Task T, class Factory>
std::shared_ptr<EnvPool> make_pool(const Model& model, PoolOptions options, Factory factory) {
  detail::TaskType type;
  type.name = canter::detail::type_name(typeid(T).name());
  type.writes_ctrl = requires(T & t, Simulation & sim, std::span<const float> action) {
    t.before_step(sim, action);
  };
  type.measures = requires(const T& t, const Simulation& sim, std::span<float> out) {
    t.measure(sim, out);
  };
  type.make_list = [&](int count) -> std::unique_ptr<detail::TaskList> {
    std::vector<T> tasks;
    tasks.reserve(static_cast<std::size_t>(count));
    for (int j = 0; j < count; ++j) tasks.push_back(factory(*model));
    return std::make_unique<detail::TaskListOf<T>>(std::move(tasks));
  };
  return detail::make_task_pool(model, factory(*model).spec(*model), std::move(options), type);
}

/// A pool of tasks constructed from `const mjModel&` if they can be, else by default.
template <Task T>
std::shared_ptr<EnvPool> make_pool(const Model& model, PoolOptions options = {}) {
  return make_pool<T>(model, std::move(options), [](const mjModel& m) {
    if constexpr (std::is_constructible_v<T, const mjModel&>)
      return T(m);
    else
      return T();
  });
}

}  // namespace canter::mujoco
