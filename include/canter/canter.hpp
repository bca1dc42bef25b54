#pragma once
// All of canter::core. Programs that only act include canter/policy_file.hpp and link
// canter::policy. <cmath> and <iostream> are here so that a program that includes nothing else can
// compute rewards and print reports.

#include <cmath>
#include <iostream>

#include "canter/base/error.hpp"
#include "canter/base/options.hpp"
#include "canter/base/rng.hpp"
#include "canter/base/spec.hpp"
#include "canter/base/state.hpp"
#include "canter/base/threads.hpp"
#include "canter/checkpoint/safetensors.hpp"
#include "canter/checkpoint/store.hpp"
#include "canter/env/environment.hpp"
#include "canter/env/mujoco/action_box.hpp"
#include "canter/env/mujoco/model.hpp"
#include "canter/env/mujoco/simulation.hpp"
#include "canter/env/mujoco/task.hpp"
#include "canter/env/pool.hpp"
#include "canter/env/registry.hpp"
#include "canter/env/shard.hpp"
#include "canter/env/step.hpp"
#include "canter/evaluate.hpp"
#include "canter/policy_file.hpp"
#include "canter/ppo/advantages.hpp"
#include "canter/ppo/mlp_policy.hpp"
#include "canter/ppo/policy.hpp"
#include "canter/ppo/ppo.hpp"
#include "canter/ppo/rollout.hpp"
#include "canter/ppo/running_moments.hpp"
#include "canter/run.hpp"
#include "canter/sync/communicator.hpp"
#include "canter/trainer.hpp"
