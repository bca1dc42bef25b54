// The library never prints, and never touches the host's own log handlers.

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "canter/base/error.hpp"
#include "env/models.hpp"
#include "env/mujoco/log.hpp"

using namespace canter;
using namespace canter::testing;
using namespace canter::mujoco;

namespace {

// an empty working directory, and stdout and stderr in a file outside of it
class Silence {
 public:
  Silence() : home_(std::filesystem::current_path()) {
    std::string name = (std::filesystem::temp_directory_path() / "canter_silence_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    folder_ = name;
    std::filesystem::create_directory(folder_ / "cwd");
    std::filesystem::current_path(folder_ / "cwd");
    std::fflush(nullptr);
    for (int fd : {1, 2}) saved_[fd - 1] = dup(fd);
    const int file = open((folder_ / "output").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    dup2(file, 1);
    dup2(file, 2);
    close(file);
  }
  ~Silence() {
    restore();
    std::filesystem::current_path(home_);
    std::filesystem::remove_all(folder_);
  }
  void restore() {
    if (restored_) return;
    restored_ = true;
    std::fflush(nullptr);
    for (int fd : {1, 2}) {
      dup2(saved_[fd - 1], fd);
      close(saved_[fd - 1]);
    }
  }
  std::uintmax_t num_bytes() const { return std::filesystem::file_size(folder_ / "output"); }
  bool no_files() const { return std::filesystem::is_empty(folder_ / "cwd"); }

 private:
  std::filesystem::path home_, folder_;
  int saved_[2] = {};
  bool restored_ = false;
};

int num_host_messages = 0;
void host_handler(const mjLogMessage*) {
  ++num_host_messages;
}

// everything in this file that makes MuJoCo speak
void provoke() {
  const Model tiny = parse_model(boxes_xml("16K")), small = parse_model(boxes_xml("48K"));
  for (const Model& model : {tiny, small}) {
    auto pool = make_pool<Boxes>(model, {.num_envs = 4, .num_threads = 2, .num_shards = 4});
    StepBuffers step(4, pool->spec());
    pool->reset(step.view());
    try {
      pool->step(std::vector<float>(4, 7), step.view());
    } catch (const EnvError&) {
    }
  }
  auto pool = make_pool<Ramp>(parse_model(kRampXml), {.num_envs = 4, .num_threads = 2});
  StepBuffers step(4, pool->spec());
  pool->reset(step.view());
  for (const float action : {2.7f, 12.0f, std::nanf("")})
    pool->step(std::vector<float>(4, action), step.view());
  try {
    parse_model(boxes_xml("1K"));
  } catch (const ModelError&) {
  }
  try {
    load_model("absent.xml");
  } catch (const ModelError&) {
  }
}

}  // namespace

TEST_CASE("nothing is printed and no file appears") {
  REQUIRE(has_thread_log_handler());
  Silence silence;
  provoke();
  silence.restore();
  CHECK(silence.num_bytes() == 0);
  CHECK(silence.no_files());
}

TEST_CASE("the silence can be heard: plain MuJoCo prints and writes a file") {
  Silence silence;
  mju_warning("a warning of the test");
  silence.restore();
  CHECK(silence.num_bytes() > 0);
  CHECK_FALSE(silence.no_files());
}

TEST_CASE("the host's own handlers are left alone and still work") {
  using SetHandler = mjfLogHandler (*)(mjfLogHandler);
  const auto set = reinterpret_cast<SetHandler>(dlsym(RTLD_DEFAULT, "_mjPRIVATE_setTlsLogHandler"));
  REQUIRE((set != nullptr));
  num_host_messages = 0;
  SUBCASE("process-wide") {
    const mjfLogHandler before = mju_setLogHandler(host_handler);
    provoke();
    CHECK(num_host_messages == 0);
    mju_warning("for the host");
    CHECK(num_host_messages == 1);
    CHECK((mju_setLogHandler(before) == host_handler));
    CHECK((set(nullptr) == nullptr));
  }
  SUBCASE("of this thread") {
    const mjfLogHandler before = set(host_handler);
    provoke();
    CHECK(num_host_messages == 0);
    mju_warning("for the host");
    CHECK(num_host_messages == 1);
    CHECK((set(before) == host_handler));
  }
  SUBCASE("guards nest") {
    {
      const LogGuard outer;
      { const LogGuard inner; }
      const mjfLogHandler quiet = set(nullptr);
      CHECK((quiet != nullptr));
      set(quiet);
    }
    CHECK((set(nullptr) == nullptr));
  }
}
