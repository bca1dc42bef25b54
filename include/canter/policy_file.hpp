#pragma once
// A policy in one file: parameters, normalisers, architecture and bounds, in safetensors format.
// `canter::policy` links nothing but the C++ standard library: this is what goes onto the robot.

#include <filesystem>
#include <memory>

#include "canter/ppo/policy.hpp"

namespace canter {

/// Writes the policy so that after a crash the old or the new file is there.
/// @throws CheckpointError with the system's reason.
void save_policy(const std::filesystem::path& path, const Policy& policy);

/// Reads a policy that acts exactly as the saved one did.
/// @throws CheckpointError if the file is missing, damaged, or of a kind that needs canter::torch.
std::shared_ptr<Policy> load_policy(const std::filesystem::path& path);

}  // namespace canter
