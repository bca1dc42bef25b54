#include "canter/env/mujoco/model.hpp"

#include "canter/base/error.hpp"
#include "env/mujoco/log.hpp"

namespace canter::mujoco {
namespace {

// a call that makes a model; plain data, since a fatal error jumps out of it
struct Load {
  const char* path = nullptr;
  const char* xml = nullptr;
  const mjModel* original = nullptr;
  const mjVFS* files = nullptr;
  mjSpec* spec = nullptr;
  mjModel* model = nullptr;
  char text[1024] = "";
};

void load_file(void* argument) {
  auto& load = *static_cast<Load*>(argument);
  load.model = mj_loadXML(load.path, nullptr, load.text, sizeof load.text);
}

void load_binary(void* argument) {
  auto& load = *static_cast<Load*>(argument);
  load.model = mj_loadModel(load.path, nullptr);
}

void compile_text(void* argument) {
  auto& load = *static_cast<Load*>(argument);
  load.spec = mj_parseXMLString(load.xml, load.files, load.text, sizeof load.text);
  if (!load.spec) return;
  load.model = mj_compile(load.spec, load.files);
  if (!load.model) std::snprintf(load.text, sizeof load.text, "%s", mjs_getError(load.spec));
}

void copy(void* argument) {
  auto& load = *static_cast<Load*>(argument);
  load.model = mj_copyModel(nullptr, load.original);
}

// runs the call; what MuJoCo says about a failure becomes the exception's text
Model finish(void (*function)(void*), Load& load, const std::string& source) {
  std::string fatal;
  if (!run_trapped(function, &load, fatal) || !load.model) {
    const std::string text = !fatal.empty() ? fatal : load.text;
    throw ModelError("cannot load " + source + ": " +
                     (text.empty() ? "MuJoCo gives no reason" : text));
  }
  return Model(load.model, source);
}

// assets in MuJoCo's virtual file system, freed in any case
class Files {
 public:
  explicit Files(const Assets& assets) {
    mj_defaultVFS(&files_);
    for (const auto& [name, bytes] : assets) {
      if (mj_addBufferVFS(&files_, name.c_str(), bytes.data(), static_cast<int>(bytes.size())) == 0)
        continue;
      mj_deleteVFS(&files_);
      throw ModelError("cannot add asset '" + name + "' to a model");
    }
  }
  ~Files() { mj_deleteVFS(&files_); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  const mjVFS* get() const { return &files_; }

 private:
  mjVFS files_;
};

}  // namespace

Model::Model(mjModel* owned, std::string source) : source_(std::move(source)) {
  if (!owned) throw ModelError("a model is expected, got null");
  // divergence is an event of the pool, never a silent reset in mid-episode
  owned->opt.disableflags |= mjDSBL_AUTORESET;
  model_ = std::shared_ptr<const mjModel>(owned, [](const mjModel* model) {
    const LogGuard guard;
    mj_deleteModel(const_cast<mjModel*>(model));
  });
}

Model load_model(const std::filesystem::path& path) {
  // an empty path has no absolute form; MuJoCo says what is wrong with it
  std::error_code ignored;
  const std::string name = std::filesystem::absolute(path, ignored).string();
  Load load;
  load.path = name.c_str();
  const bool binary = path.extension() == ".mjb";
  return finish(binary ? load_binary : load_file, load, "model '" + name + "'");
}

Model parse_model(std::string_view xml, const Assets& assets) {
  const LogGuard guard;
  const Files files(assets);
  const std::string text(xml);
  Load load;
  load.xml = text.c_str();
  load.files = files.get();
  struct SpecOwner {
    Load& load;
    ~SpecOwner() {
      if (load.spec) mj_deleteSpec(load.spec);
    }
  } owner{load};
  return finish(compile_text, load, "a model from XML text");
}

Model copy_model(const mjModel& model) {
  Load load;
  load.original = &model;
  return finish(copy, load, "a copy of a model");
}

int id_of(const mjModel& model, mjtObj type, std::string_view name) {
  const LogGuard guard;
  const int id = mj_name2id(&model, type, std::string(name).c_str());
  if (id >= 0) return id;
  throw ModelError("the model has no " + std::string(mju_type2Str(type)) + " named '" +
                   std::string(name) + "'");
}

}  // namespace canter::mujoco
