#pragma once
// What a policy file holds, for whoever writes one in a way of its own.

#include "canter/base/state.hpp"
#include "canter/checkpoint/safetensors.hpp"
#include "canter/ppo/policy.hpp"

namespace canter::detail {

/// Appends the arrays of a policy file: views of the policy.
void append_policy(const Policy& policy, StateDict& state);

/// The metadata of a policy file; they never change.
Metadata policy_metadata(const Policy& policy);

}  // namespace canter::detail
