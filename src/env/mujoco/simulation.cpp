#include "canter/env/mujoco/simulation.hpp"

#include <string>

#include "env/mujoco/log.hpp"

namespace canter::mujoco {
namespace {

struct Call {
  const mjModel* model;
  mjData* data;
};

// a C++ exception instead of MuJoCo's longjmp; what the failed call left on mjData's stack is freed
void run(void (*function)(void*), const mjModel* model, mjData* data, const char* name) {
  const auto stack = data->pstack;
  const auto base = data->pbase;
  Call call{model, data};
  std::string text;
  if (run_trapped(function, &call, text)) return;
  data->pstack = stack;
  data->pbase = base;
  throw Error(std::string(name) + ": " + text);
}

}  // namespace

void Simulation::forward() {
  run(
      [](void* argument) {
        const Call& call = *static_cast<Call*>(argument);
        mj_forward(call.model, call.data);
      },
      model_, data_, "mj_forward");
}

void Simulation::kinematics() {
  run(
      [](void* argument) {
        const Call& call = *static_cast<Call*>(argument);
        mj_kinematics(call.model, call.data);
        mj_comPos(call.model, call.data);
      },
      model_, data_, "mj_kinematics");
}

void Simulation::throw_size(std::size_t got, std::size_t expected) {
  throw InvalidArgument("copy_to: the sources have " + std::to_string(got) + " numbers, but " +
                        std::to_string(expected) + " are expected");
}

}  // namespace canter::mujoco
