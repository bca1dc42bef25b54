// Saving and resuming a run. A checkpoint holds the arrays of policy/, ppo/, env/ and trainer/, the
// trainer's structs as cereal/trainer and cereal/trainer_clock, and the configuration as text.

#include <mujoco/mujoco.h>

#include <algorithm>
#include <utility>

#include "canter/base/error.hpp"
#include "checkpoint/checksum.hpp"
#include "checkpoint/durable_file.hpp"
#include "checkpoint/safetensors_image.hpp"
#include "config.hpp"
#include "policy_content.hpp"
#include "rank_state.hpp"
#include "trainer_impl.hpp"

#ifndef CANTER_VERSION
#define CANTER_VERSION "unknown"
#endif

namespace canter {
namespace {

constexpr int kComponentVersion = 1;

// "env" of "env/rng": who an array belongs to
std::string component_of(const std::string& name) {
  return name.substr(0, name.find('/'));
}

// the rows of the pool: those below env/ that are not the learner's
StateDict part_of_pool(const StateDict& all, const Ppo& ppo) {
  StateDict learner, part;
  ppo.save(learner);
  for (const Array& array : all.arrays())
    if (array.name.starts_with("env/") && learner.find(array.name) == nullptr)
      part.append(Array(array));
  return part;
}

// the pool checks the names of its own part
void check_names(const StateDict& there, const StateDict& expected) {
  for (const Array& array : expected.arrays())
    if (there.find(array.name) == nullptr)
      throw CheckpointError("the checkpoint lacks the array '" + array.name + "'");
  for (const Array& array : there.arrays())
    if (!array.name.starts_with("env/") && expected.find(array.name) == nullptr)
      throw CheckpointError("the checkpoint has the array '" + array.name +
                            "', which this run does not know");
}

// what a failing rank says to the others when a checkpoint does not fit
enum class Outcome : std::uint8_t { none, loaded, failed };

}  // namespace

// the options as they are in force
RunOptions Trainer::Impl::described() const {
  RunOptions run;
  run.env = pool->name();
  run.preset = preset;
  run.pool = pool->options();
  // the configuration of a run is that of its first rank
  run.pool.env_offset -= std::int64_t{communicator->rank()} * pool->num_envs();
  if (policy->kind() == "mlp") run.policy = mlp_options(*policy);
  run.trainer = options;
  return run;
}

// everything but the pool, which may be in a state that cannot be saved
StateDict Trainer::Impl::state_without_pool() const {
  StateDict all;
  policy->save(all);
  ppo.save(all);
  window.save(all);
  state.save(all);
  return all;
}

StateDict Trainer::Impl::local_state() const {
  StateDict all = state_without_pool();
  pool->save(all);
  return all;
}

// what every manifest of this run says; made once, to keep saves short
void Trainer::Impl::describe(const StateDict& global) {
  info = {.world_size = communicator->size(),
          .env_first = pool->options().env_offset,
          .env_count = std::int64_t{pool->num_envs()} * communicator->size()};
  for (const Array& array : global.arrays())
    info.components[component_of(array.name)] = kComponentVersion;
  const std::string config = detail::to_toml(described());
  info.provenance = {{"canter", CANTER_VERSION},
                     {"mujoco", mj_versionString()},
                     {"compiler", __VERSION__},
                     {"kernels", std::string(kernel_name())},
                     {"policy", policy->kind()},
                     {"environment", pool->name()},
                     {"model_hash", pool->model_hash()},
                     {"config", config},
                     {"config_xxh3", detail::checksum(config)}};
}

void Trainer::Impl::start_save() {
  state.metrics_size = metrics.size();
  const StateDict local = local_state();
  std::deque<std::vector<std::byte>> memory;
  const StateDict global = detail::gather_state(local, *communicator, memory);
  saved_iteration = state.report.iteration;
  last_save = Clock::now();
  if (!store) return;
  if (info.components.empty()) describe(global);
  visit(state.report, [&](std::string_view name, const auto& value) {
    info.metrics[std::string(name)] = static_cast<double>(value);
  });
  store->save(state.report.env_steps, global, info, policy_writer());
}

// copies the policy now; what it returns writes policy.safetensors later, in another thread
std::function<void()> Trainer::Impl::policy_writer() {
  // the memory of the save before last serves again, unless that one is still being written
  if (!policy_image || !policy_image->written.exchange(false))
    policy_image = std::make_shared<PolicyImage>();
  if (policy_metadata.empty()) policy_metadata = detail::policy_metadata(*policy);
  StateDict arrays;
  detail::append_policy(*policy, arrays);
  policy_image->image.fill(arrays, policy_metadata);
  return [held = policy_image, path = directory / "policy.safetensors"] {
    held->image.seal();
    detail::write_durably(path, held->image.bytes());
    held->written = true;
  };
}

// at the end of an iteration: a save that fails is told, and training goes on
void Trainer::Impl::save_in_time() {
  if (!has_directory()) return;
  if (store) {
    try {
      store->check();
    } catch (const std::exception& error) {
      warning += std::string("a save failed: ") + error.what() + "; ";
    }
  }
  if (options.save_interval_seconds < 0) return;
  const std::chrono::duration<double> since = Clock::now() - last_save;
  if (!agree(is_root() && since.count() >= options.save_interval_seconds)) return;
  try {
    start_save();
  } catch (const CommunicationError&) {
    throw;
  } catch (const std::exception& error) {
    warning += std::string("a save failed: ") + error.what() + "; ";
  }
}

void Trainer::Impl::save_now() {
  std::string reason;
  try {
    start_save();
  } catch (const CheckpointError& error) {
    // in the background it is the save before this one that failed
    (options.checkpoint.background ? warning : reason) += error.what();
  }
  finish_save(reason);
}

// until the save under way is durable; ranks agree whether it is
void Trainer::Impl::finish_save(std::string reason) {
  if (store && reason.empty()) {
    try {
      store->wait();
    } catch (const std::exception& error) {
      reason = error.what();
    }
  }
  if (agree(!reason.empty()))
    throw CheckpointError(reason.empty() ? "rank 0 could not save" : reason);
}

void Trainer::save() {
  Impl& self = *impl_;
  if (!self.has_directory()) throw InvalidArgument("save needs a directory in TrainerOptions");
  if (self.failed) throw Error("an iteration failed: there is no boundary to save; call resume()");
  self.begin();
  self.save_now();
}

// the newest checkpoint as the state of the whole run, on every rank
std::optional<Checkpoint> Trainer::Impl::load_checkpoint() {
  Outcome outcome = Outcome::none;
  std::optional<Checkpoint> checkpoint;
  std::string reason;
  std::vector<std::byte> bytes;
  if (store) {
    try {
      checkpoint = store->load_newest();
      if (checkpoint) {
        outcome = Outcome::loaded;
        if (communicator->size() > 1) bytes = to_safetensors(checkpoint->state, {});
      }
    } catch (const CheckpointError& error) {
      outcome = Outcome::failed;
      reason = error.what();
    }
  }
  if (communicator->size() > 1) {
    std::uint64_t words[] = {static_cast<std::uint64_t>(outcome), bytes.size()};
    communicator->broadcast(std::as_writable_bytes(std::span(words)), 0);
    outcome = static_cast<Outcome>(words[0]);
    bytes.resize(words[1]);
    communicator->broadcast(bytes, 0);
    if (!is_root() && outcome == Outcome::loaded) {
      auto file = std::make_shared<SafetensorsFile>(parse_safetensors(std::move(bytes), "rank 0"));
      checkpoint.emplace();
      checkpoint->state = std::move(file->arrays);
      checkpoint->memory = std::move(file);
    }
  }
  if (outcome == Outcome::failed)
    throw CheckpointError(reason.empty() ? "rank 0 could not load a checkpoint" : reason);
  return checkpoint;
}

// validates everything; changes nothing
void Trainer::Impl::check_fits(const Checkpoint& checkpoint, const StateDict& local) const {
  if (is_root()) {
    const CheckpointInfo& info = checkpoint.info;
    if (info.world_size != communicator->size())
      throw CheckpointError("the checkpoint is of " + std::to_string(info.world_size) +
                            " ranks, this run has " + std::to_string(communicator->size()));
    for (const auto& [name, version] : info.components)
      if (version > kComponentVersion)
        throw CheckpointError("component '" + name + "' has version " + std::to_string(version) +
                              ", expected at most " + std::to_string(kComponentVersion));
    const auto config = info.provenance.find("config");
    if (config == info.provenance.end()) throw CheckpointError("the checkpoint has no config");
    const std::vector<std::string> different = detail::differences(
        described(), detail::parse_toml(config->second, "configuration of the checkpoint", true));
    if (!different.empty()) {
      std::string message = "this run's options are not those of the saved run:";
      for (const std::string& line : different) message += "\n  " + line;
      throw InvalidArgument(message);
    }
    if (const auto hash = info.provenance.find("model_hash");
        hash == info.provenance.end() || hash->second != pool->model_hash())
      throw CheckpointError("the checkpoint was made with another model of '" + pool->name() +
                            "': its hash is " +
                            (hash == info.provenance.end() ? "missing" : hash->second) +
                            ", expected " + pool->model_hash());
  }
  check_names(local, state_without_pool());
  policy->validate(local);
  ppo.validate(local);
  pool->validate(part_of_pool(local, ppo));
  window.validate(local);
  detail::TrainerState::read(local);
}

// the same bits are promised for the same build only
void Trainer::Impl::compare_builds(const CheckpointInfo& saved) {
  const std::pair<const char*, std::string> here[] = {{"canter", CANTER_VERSION},
                                                      {"mujoco", mj_versionString()},
                                                      {"compiler", __VERSION__},
                                                      {"kernels", std::string(kernel_name())}};
  for (const auto& [name, value] : here)
    if (const auto before = saved.provenance.find(name);
        before != saved.provenance.end() && before->second != value)
      warning += std::string("saved with ") + name + ' ' + before->second + ", this is " + value +
                 ": the last bits may differ; ";
}

bool Trainer::Impl::resume() {
  if (!has_directory()) return false;
  const std::optional<Checkpoint> checkpoint = load_checkpoint();
  if (!checkpoint) return false;
  // ranks agree before any of them changes
  StateDict local;
  std::exception_ptr misfit;
  try {
    local = detail::state_of_rank(checkpoint->state, communicator->rank(), communicator->size());
    check_fits(*checkpoint, local);
  } catch (const Error&) {
    misfit = std::current_exception();
  }
  if (agree(misfit != nullptr)) {
    if (misfit) std::rethrow_exception(misfit);
    throw CheckpointError("the checkpoint does not fit another rank");
  }
  const StateDict of_pool = part_of_pool(local, ppo);
  failed = true;  // until all of it is there
  policy->load(local);
  ppo.load(local);
  hold->load(of_pool);
  window.load(local);
  state = detail::TrainerState::read(local);
  const std::span<const float> observations = pool->observations();
  std::copy(
      observations.begin(), observations.end(),
      rollout.row(rollout.observations, rollout.horizon(), pool->spec().observation_size).begin());
  for (const std::string& reason : checkpoint->rejected) warning += "set aside: " + reason + "; ";
  compare_builds(checkpoint->info);
  saved_iteration = -1;
  resumed = true;
  failed = begun = false;
  return true;
}

bool Trainer::resume() {
  return impl_->resume();
}

std::string Trainer::digest() const {
  const StateDict local = impl_->local_state();
  std::deque<std::vector<std::byte>> memory;
  const StateDict global = detail::gather_state(local, *impl_->communicator, memory);
  detail::Checksum sum;
  for (const Array& array : global.arrays()) {
    if (array.name == detail::kClockName) continue;
    sum.add(array.name);
    sum.add(name_of(array.dtype));
    sum.add(std::as_bytes(std::span(array.shape)));
    sum.add(array.bytes);
  }
  return sum.digits();
}

std::size_t Trainer::state_bytes() const {
  return impl_->local_state().num_bytes();
}

}  // namespace canter
