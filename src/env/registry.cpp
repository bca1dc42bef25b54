// The table of tasks: canter's own, then those a program registers.

#include "canter/env/registry.hpp"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "canter/base/error.hpp"
#include "canter/base/options.hpp"
#include "tasks/builtin.hpp"

namespace canter {
namespace {

struct Entry {
  PoolFactory factory;
  std::string model_file;
};

// listed here rather than registered by static objects in each task's file: those would be dropped
// from a static library, and their order of construction is nobody's
std::map<std::string, Entry, std::less<>> builtin_tasks() {
  return {
      {"Ant-v5", {tasks::make_ant, "ant.xml"}},
      {"CartPole-v1", {tasks::make_cart_pole, ""}},
      {"HalfCheetah-v5", {tasks::make_half_cheetah, "half_cheetah.xml"}},
      {"Hopper-v5", {tasks::make_hopper, "hopper.xml"}},
      {"InvertedPendulum-v5", {tasks::make_inverted_pendulum, "inverted_pendulum.xml"}},
      {"Pendulum-v1", {tasks::make_pendulum, ""}},
      {"Walker2d-v5", {tasks::make_walker2d, "walker2d_v5.xml"}},
  };
}

class Registry {
 public:
  std::vector<std::string> names() const {
    const std::scoped_lock lock(mutex_);
    return locked_names();
  }

  // a copy, so that no lock is held while the factory runs
  Entry entry(std::string_view name) const {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end()) throw_unknown("task", name, locked_names());
    return found->second;
  }

  void add(std::string name, PoolFactory factory, std::string model_file) {
    if (name.empty()) throw InvalidArgument("register_task: the name must not be empty");
    if (!factory) throw InvalidArgument("register_task: the factory of '" + name + "' is empty");
    const std::scoped_lock lock(mutex_);
    const auto [place, added] =
        entries_.try_emplace(std::move(name), Entry{std::move(factory), std::move(model_file)});
    if (!added)
      throw InvalidArgument("register_task: '" + place->first + "' is registered already");
  }

 private:
  std::vector<std::string> locked_names() const {
    std::vector<std::string> all;
    for (const auto& [name, entry] : entries_) all.push_back(name);
    return all;
  }

  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ = builtin_tasks();
};

Registry& registry() {
  static Registry instance;
  return instance;
}

// the first folder of $CANTER_ASSET_PATH that has the file
std::string find_asset(std::string_view task, const std::string& file) {
  const char* variable = std::getenv("CANTER_ASSET_PATH");
  std::string_view folders = variable ? variable : "";
  while (!folders.empty()) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    const std::filesystem::path path = std::filesystem::path(folders.substr(0, end)) / file;
    std::error_code ignored;
    if (end > 0 && std::filesystem::is_regular_file(path, ignored)) return path.string();
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  throw InvalidArgument(
      "task '" + std::string(task) + "' needs the model file '" + file +
      "': set PoolOptions::model_path to it, or $CANTER_ASSET_PATH (" +
      (variable ? "now '" + std::string(variable) + "'" : "not set") +
      ") to a colon-separated list of folders that has it; from Python it is found in "
      "the installed gymnasium package (pip install gymnasium[mujoco])");
}

}  // namespace

std::shared_ptr<EnvPool> make_pool(std::string_view name, const PoolOptions& options) {
  const Entry entry = registry().entry(name);
  PoolOptions resolved = options;
  if (resolved.model_path.empty() && !entry.model_file.empty())
    resolved.model_path = find_asset(name, entry.model_file);
  std::shared_ptr<EnvPool> pool = entry.factory(resolved);
  if (!pool) throw InvalidArgument("the factory of task '" + std::string(name) + "' made no pool");
  pool->set_name(std::string(name));
  return pool;
}

std::vector<std::string> registered_tasks() {
  return registry().names();
}

void register_task(std::string name, PoolFactory factory, std::string model_file) {
  registry().add(std::move(name), std::move(factory), std::move(model_file));
}

std::string model_file(std::string_view name) {
  return registry().entry(name).model_file;
}

}  // namespace canter
