// The registry: names, model files, errors that help, and use from several threads.

#include "canter/env/registry.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "canter/base/error.hpp"

namespace {

using canter::InvalidArgument;
using canter::PoolOptions;

// sets a variable of this process and puts the old value back
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    if (value)
      setenv(name, value, 1);
    else
      unsetenv(name);
  }
  ~ScopedVariable() {
    if (had_)
      setenv(name_, old_.c_str(), 1);
    else
      unsetenv(name_);
  }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

std::string message_of(std::string_view name, const PoolOptions& options = {}) {
  try {
    canter::make_pool(name, options);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the built-in tasks are registered, in order, with their model files") {
  const std::vector<std::string> expected{"Ant-v5",     "CartPole-v1",         "HalfCheetah-v5",
                                          "Hopper-v5",  "InvertedPendulum-v5", "Pendulum-v1",
                                          "Walker2d-v5"};
  const std::vector<std::string> names = canter::registered_tasks();
  CHECK(std::is_sorted(names.begin(), names.end()));
  CHECK(std::includes(names.begin(), names.end(), expected.begin(), expected.end()));
  CHECK(canter::model_file("Walker2d-v5") == "walker2d_v5.xml");
  CHECK(canter::model_file("CartPole-v1").empty());
}

TEST_CASE("an unknown name gives the nearest match") {
  CHECK(contains(message_of("HalfCheeta-v5"), "HalfCheetah-v5"));
  CHECK(contains(message_of("halfcheetah-v5"), "HalfCheetah-v5"));
  CHECK(contains(message_of("Ant-v4"), "Ant-v5"));
  // nothing is near: all names are listed
  CHECK(contains(message_of("zzzzzzzzzzzzzzzzzzzzzzzzz"), "Pendulum-v1"));
  CHECK(contains(message_of(""), "Pendulum-v1"));
  CHECK_THROWS_AS(canter::model_file("Hoper-v5"), InvalidArgument);
}

TEST_CASE("a model file that is nowhere: the message names file, option and variable") {
  SUBCASE("variable not set") {
    const ScopedVariable variable("CANTER_ASSET_PATH", nullptr);
    const std::string message = message_of("Hopper-v5");
    for (const auto* part :
         {"hopper.xml", "model_path", "CANTER_ASSET_PATH", "not set", "gymnasium", "Hopper-v5"})
      CHECK_MESSAGE(contains(message, part), part);
  }
  SUBCASE("variable without the file") {
    const ScopedVariable variable("CANTER_ASSET_PATH", ":/nowhere/at/all::");
    CHECK(contains(message_of("Hopper-v5"), "/nowhere/at/all"));
  }
}

TEST_CASE("the first folder of the list that has the file is taken; model_path goes first") {
  const auto root = std::filesystem::temp_directory_path() / "canter registry test";
  std::filesystem::remove_all(root);
  for (const auto* folder : {"a", "b", "c"}) std::filesystem::create_directories(root / folder);
  for (const auto* folder : {"b", "c"}) std::ofstream(root / folder / "own.xml") << "<mujoco/>";

  std::string seen;
  canter::register_task(
      "test-model-search",
      [&](const PoolOptions& options) {
        seen = options.model_path;
        return canter::make_pool("CartPole-v1", {});
      },
      "own.xml");
  const std::string path =
      (root / "a").string() + "::" + (root / "b").string() + ":" + (root / "c").string();
  const ScopedVariable variable("CANTER_ASSET_PATH", path.c_str());
  canter::make_pool("test-model-search");
  CHECK(seen == (root / "b" / "own.xml").string());
  canter::make_pool("test-model-search", {.model_path = "elsewhere.xml"});
  CHECK(seen == "elsewhere.xml");
  std::filesystem::remove_all(root);
}

TEST_CASE("a program's own task is made by name; names are taken once") {
  const auto alias = [](const PoolOptions& options) {
    return canter::make_pool("CartPole-v1", options);
  };
  canter::register_task("test-own", alias);
  const auto pool = canter::make_pool("test-own", {.num_envs = 3});
  CHECK(pool->num_envs() == 3);
  CHECK(pool->name() == "test-own");
  CHECK_THROWS_AS(canter::register_task("test-own", alias), InvalidArgument);
  CHECK_THROWS_AS(canter::register_task("Ant-v5", alias), InvalidArgument);
  CHECK_THROWS_AS(canter::register_task("", alias), InvalidArgument);
  CHECK_THROWS_AS(canter::register_task("test-empty", {}), InvalidArgument);
  canter::register_task("test-null", [](const PoolOptions&) { return nullptr; });
  CHECK_THROWS_AS(canter::make_pool("test-null"), InvalidArgument);
}

TEST_CASE("registering and making from several threads at once") {
  std::atomic<int> num_made = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t, &num_made] {
      for (int k = 0; k < 20; ++k) {
        const std::string name = "test-thread-" + std::to_string(t) + "-" + std::to_string(k);
        canter::register_task(name, [](const PoolOptions& options) {
          return canter::make_pool("CartPole-v1", options);
        });
        // a factory that asks the registry itself must not meet a held lock
        num_made += canter::make_pool(name, {.num_threads = 1})->num_envs();
        num_made += static_cast<int>(canter::registered_tasks().empty());
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(num_made == 80);
}
