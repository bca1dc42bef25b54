#pragma once
// Model: a MuJoCo model that pools share. Loading is silent: MuJoCo's text arrives in a ModelError.

#include <mujoco/mujoco.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace canter::mujoco {

static_assert(std::is_same_v<mjtNum, double>, "canter needs a double-precision MuJoCo");

/// A handle of a const mjModel; copies are cheap and share the model. MuJoCo's automatic reset of
/// unstable simulations is disabled in it: the pool reports them instead. Safe to use from any
/// thread.
class Model {
 public:
  /// Takes ownership of a model. @throws ModelError if it is null.
  explicit Model(mjModel* owned, std::string source = "");

  const mjModel& operator*() const noexcept { return *model_; }
  const mjModel* operator->() const noexcept { return model_.get(); }
  const mjModel* get() const noexcept { return model_.get(); }
  /// Where it comes from: a path, or a few words.
  const std::string& source() const noexcept { return source_; }

 private:
  std::shared_ptr<const mjModel> model_;
  std::string source_;
};

/// Files that an XML string refers to, by name.
using Assets = std::map<std::string, std::vector<std::byte>>;

/// Loads an MJCF or URDF file, or a compiled .mjb file.
/// @throws ModelError with MuJoCo's text and the path tried.
Model load_model(const std::filesystem::path& path);

/// Compiles a model from an XML string; meshes, textures and includes are looked up in `assets`.
/// @throws ModelError with MuJoCo's text.
Model parse_model(std::string_view xml, const Assets& assets = {});

/// A copy of a model that somebody else owns (a live Python `mujoco.MjModel`).
/// @throws ModelError if MuJoCo cannot copy it.
Model copy_model(const mjModel& model);

/// Id of a named object. @throws ModelError naming type and name if there is none.
int id_of(const mjModel& model, mjtObj type, std::string_view name);

/// Whether libmujoco has the thread-local log handler with which canter silences MuJoCo and catches
/// its fatal errors; without it the host's handler stays in charge. For `canter doctor`.
bool has_thread_log_handler() noexcept;

}  // namespace canter::mujoco
