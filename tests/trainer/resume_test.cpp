// A resumed run equals the uninterrupted one, whatever happens in between.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>
#include <regex>

#include "trainer/child.hpp"
#include "trainer/runs.hpp"

using namespace canter;
using namespace canter::testing;
namespace fs = std::filesystem;

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  REQUIRE(value != nullptr);
  return value;
}

std::string straight_digest(const std::string& run, int iterations) {
  auto trainer = make_small_trainer(run, {.trainer = short_iterations()});
  iterate(*trainer, iterations);
  return trainer->digest();
}

// metrics.jsonl without what depends on the clock
std::string timeless_metrics(const fs::path& directory) {
  std::ifstream in(directory / "metrics.jsonl");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  return std::regex_replace(text, std::regex("\"(time_[a-z]+|seconds|steps_per_second)\": [^,}]*"),
                            "");
}

void flip_byte(const fs::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-50, std::ios::end);
  stream.put('\x5a');
  REQUIRE(stream.good());
}

}  // namespace

TEST_CASE("child of another test" * doctest::skip()) {
  TrainerOptions options = short_iterations(variable("CANTER_TEST_DIRECTORY"));
  options.save_interval_seconds = std::stod(variable("CANTER_TEST_INTERVAL"));
  auto trainer = make_small_trainer(
      variable("CANTER_TEST_RUN"),
      {.num_threads = std::stoi(variable("CANTER_TEST_THREADS")), .trainer = options});
  trainer->resume();
  REQUIRE(::write(std::stoi(variable("CANTER_TEST_READY")), "r", 1) == 1);
  while (trainer->iteration() < std::stoi(variable("CANTER_TEST_ITERATIONS"))) {
    trainer->iterate();
    REQUIRE(::write(std::stoi(variable("CANTER_TEST_READY")), "i", 1) == 1);
  }
  if (variable("CANTER_TEST_KILL") == "1") {
    trainer->save();
    ::raise(SIGKILL);
  }
  std::ofstream(options.directory + "/digest") << trainer->digest();
}

TEST_CASE("10 iterations, save, SIGKILL, new process, 10 more = 20 iterations") {
  for (const std::string run : {"CartPole-v1", "one leg"}) {
    CAPTURE(run);
    const Scratch scratch, straight;
    const std::string directory = scratch.path();
    CHECK(run_child(
              {.run = run, .directory = directory, .iterations = 10, .kill_after_save = true}) ==
          "");
    const std::string resumed =
        run_child({.run = run, .directory = directory, .num_threads = 2, .iterations = 20});
    CHECK(resumed == straight_digest(run, 20));
    CHECK(resumed != straight_digest(run, 19));

    // and its metrics are those of a run that was never interrupted
    auto trainer = make_small_trainer(run, {.trainer = short_iterations(straight.path().string())});
    iterate(*trainer, 20);
    CHECK(timeless_metrics(scratch.path()) == timeless_metrics(straight.path()));
  }
}

TEST_CASE("killed at random times, inside saves too: always the same run") {
  std::mt19937 random(7);
  for (const std::string run : {"CartPole-v1", "one leg"}) {
    CAPTURE(run);
    const Scratch scratch(Scratch::Place::memory);
    const std::string directory = scratch.path();
    // every iteration saves, so most kills hit a save
    ChildTask task{
        .run = run, .directory = directory, .iterations = 1'000'000, .save_interval_seconds = 0};
    std::int64_t last = 0;
    for (int kill = 0; kill < 28; ++kill) {
      task.num_threads = 1 + kill % 2;
      // a few iterations, and then at any time in the next one or in the save behind it
      const int iterations = static_cast<int>(random() % 6);
      Child child(task);
      for (int i = 0; i <= iterations; ++i) child.wait_for_sign();
      ::usleep(static_cast<useconds_t>(random() % 8'000));
      child.kill();
      CHECK(WIFSIGNALED(child.wait()));
      CheckpointStore store(scratch.path() / "checkpoints");
      const std::vector<std::int64_t> steps = store.steps();
      // a save waits for the one before it, so all but the latest are there
      CHECK((steps.empty() ? 0 : steps.back()) >= last + std::max(0, iterations - 1) * 6 * 24);
      last = steps.empty() ? 0 : steps.back();
    }
    const auto reached = static_cast<int>(last / (6 * 24));
    task.iterations = reached + 3;
    CHECK(run_child(task) == straight_digest(run, reached + 3));
    // nothing of the killed ones is left
    for (const auto& entry : fs::recursive_directory_iterator(scratch.path()))
      CHECK_FALSE(entry.path().filename().string().starts_with(".tmp-"));
  }
}

TEST_CASE("the working directory may change while a run goes on") {
  const Scratch scratch;
  const fs::path here = fs::current_path();
  fs::current_path(scratch.path());
  auto trainer = make_small_trainer("CartPole-v1", {.trainer = short_iterations("run")});
  fs::current_path(here);
  trainer->iterate();
  trainer->save();
  CHECK(fs::exists(scratch.path() / "run" / "policy.safetensors"));
  CHECK(fs::exists(scratch.path() / "run" / "config.toml"));
  CHECK_FALSE(fs::exists("run"));
}

TEST_CASE("a damaged checkpoint is refused by name and the one before is used") {
  const Scratch scratch;
  const std::string directory = scratch.path();
  {
    TrainerOptions options = short_iterations(directory);
    options.save_interval_seconds = 0;
    auto trainer = make_small_trainer("one leg", {.trainer = options});
    iterate(*trainer, 4);
  }
  const fs::path shard =
      scratch.path() / "checkpoints" / "step-000000000576" / "shard-00000-of-00001.safetensors";
  REQUIRE(fs::exists(shard));
  SUBCASE("flipped byte") {
    flip_byte(shard);
  }
  SUBCASE("truncated file") {
    fs::resize_file(shard, fs::file_size(shard) - 1);
  }
  auto trainer = make_small_trainer("one leg", {.trainer = short_iterations(directory)});
  CHECK(trainer->resume());
  CHECK(trainer->iteration() == 3);
  const Report report = trainer->iterate();
  CHECK(report.warning.find("set aside: step-000000000576") != std::string::npos);
  CHECK(trainer->digest() == straight_digest("one leg", 4));
}

TEST_CASE("what does not fit is named, and nothing changes") {
  const Scratch scratch;
  const std::string directory = scratch.path();
  {
    auto trainer = make_small_trainer("one leg", {.trainer = short_iterations(directory)});
    iterate(*trainer, 2);
    trainer->save();
  }
  Variation other{.trainer = short_iterations(directory)};
  std::string run = "one leg", expected;
  SUBCASE("learning rate") {
    other.trainer.ppo.learning_rate = 1e-3f;
    expected = "learning_rate is 0.001, but 3e-04 in the saved run";
  }
  SUBCASE("seed") {
    other.trainer.seed = 4, expected = "seed is 4, but 3";
  }
  SUBCASE("number of environments") {
    other.num_envs = 7, expected = "num_envs is 7, but 6";
  }
  SUBCASE("network") {
    other.policy.hidden = {16, 8}, expected = "hidden is [16, 8]";
  }
  SUBCASE("environment") {
    run = "CartPole-v1", expected = "env is \"CartPole-v1\"";
  }
  auto trainer = make_small_trainer(run, other);
  const std::string before = trainer->digest();
  CHECK_THROWS_WITH_AS(trainer->resume(), doctest::Contains(expected.c_str()), InvalidArgument);
  CHECK(trainer->digest() == before);
  CHECK(trainer->iteration() == 0);
  // and the run that is there is not written over
  CHECK_THROWS_WITH_AS(trainer->iterate(), doctest::Contains("call resume() first"), Error);
}

namespace {

// copies the newest checkpoint of `from` into `to`, with one thing changed on the way
template <class Change>
void copy_checkpoint(const fs::path& from, const fs::path& to, Change&& change) {
  const auto checkpoint = CheckpointStore(from / "checkpoints").load_newest();
  REQUIRE(checkpoint);
  CheckpointInfo info = checkpoint->info;
  std::vector<Array> arrays = checkpoint->state.arrays();
  change(arrays, info);
  StateDict state;
  for (Array& array : arrays) state.append(std::move(array));
  CheckpointStore store(to / "checkpoints");
  store.save(checkpoint->step, state, info);
  store.wait();
}

Array& named(std::vector<Array>& arrays, std::string_view name) {
  const auto found = std::ranges::find(arrays, name, &Array::name);
  REQUIRE(found != arrays.end());
  return *found;
}

}  // namespace

TEST_CASE("a checkpoint whose arrays do not fit is refused by name, and nothing changes") {
  const Scratch scratch;
  const fs::path good = scratch.path() / "good", bad = scratch.path() / "bad";
  {
    auto trainer = make_small_trainer("one leg", {.trainer = short_iterations(good.string())});
    iterate(*trainer, 2);
    trainer->save();
  }
  static constexpr std::array<std::byte, 8> kEight{};
  const Array extra{"policy/extra", Dtype::u8, {8}, kEight};
  std::string expected;
  std::function<void(std::vector<Array>&, CheckpointInfo&)> change;
  const auto check = [&] {
    copy_checkpoint(good, bad, change);
    auto trainer = make_small_trainer("one leg", {.trainer = short_iterations(bad.string())});
    const std::string before = trainer->digest();
    CHECK_THROWS_WITH_AS(trainer->resume(), doctest::Contains(expected.c_str()), CheckpointError);
    CHECK(trainer->digest() == before);
    fs::remove_all(bad);
  };
  // each array in its turn is missing, or has another shape, or another type
  std::vector<std::string> names;
  const auto newest = CheckpointStore(good / "checkpoints").load_newest();
  for (const Array& array : newest->state.arrays()) names.push_back(array.name);
  CHECK(names.size() > 15);
  for (const std::string& name : names) {
    CAPTURE(name);
    expected = name;
    change = [&](std::vector<Array>& arrays, CheckpointInfo&) {
      std::erase_if(arrays, [&](const Array& a) { return a.name == name; });
    };
    check();
    change = [&](std::vector<Array>& arrays, CheckpointInfo&) {
      Array& array = named(arrays, name);
      array.dtype = Dtype::u8;
      array.shape = {1};
      array.bytes = array.bytes.first(1);
    };
    check();
  }
  expected = "policy/extra";
  change = [&](std::vector<Array>& arrays, CheckpointInfo&) { arrays.push_back(extra); };
  check();
  expected = "component 'ppo' has version 2";
  change = [](std::vector<Array>&, CheckpointInfo& info) { info.components["ppo"] = 2; };
  check();
  expected = "of 2 ranks, this run has 1";
  change = [](std::vector<Array>&, CheckpointInfo& info) { info.world_size = 2; };
  check();
  expected = "another model of";
  change = [](std::vector<Array>&, CheckpointInfo& info) {
    // sizes agree, one gear does not
    std::string xml = kOneLegXml;
    xml.replace(xml.find("gear=\"8\""), 8, "gear=\"9\"");
    const auto pool = mujoco::make_pool<OneLeg>(mujoco::parse_model(xml), {});
    CHECK(pool->model_hash().size() == 16);
    CHECK(info.provenance.at("model_hash") != pool->model_hash());
    info.provenance["model_hash"] = pool->model_hash();
  };
  check();
  // and unchanged it fits
  copy_checkpoint(good, bad, [](std::vector<Array>&, CheckpointInfo&) {});
  CHECK(make_small_trainer("one leg", {.trainer = short_iterations(bad.string())})->resume());
}

TEST_CASE("another total_steps, other threads and another place may be given") {
  const Scratch scratch;
  const fs::path first = scratch.path() / "first", second = scratch.path() / "second";
  {
    auto trainer = make_small_trainer("one leg", {.trainer = short_iterations(first.string())});
    iterate(*trainer, 2);
    trainer->save();
  }
  fs::rename(first, second);
  Variation other{.num_threads = 2, .trainer = short_iterations(second.string())};
  other.trainer.total_steps = 1000;
  auto trainer = make_small_trainer("one leg", other);
  CHECK(trainer->resume());
  // linear from 3e-4 to 0 over the new total: 288 of 1000 steps are done
  CHECK(trainer->iterate().learning_rate == doctest::Approx(3e-4 * (1 - 0.288)).epsilon(1e-6));
}

TEST_CASE("a preset of any name may be noted, by runs of any pool") {
  const Scratch scratch;
  const auto make = [&] {
    const Variation v{.trainer = short_iterations(scratch.path().string())};
    auto pool = make_small_pool("one leg", v);
    auto policy = make_mlp_policy(pool->spec(), v.policy, 5);
    return std::make_unique<Trainer>(pool, policy, v.communicator, v.trainer, "settings of May");
  };
  make()->save();
  auto trainer = make();
  CHECK(trainer->resume());
  trainer->iterate();
}

TEST_CASE("the learning rate continues where it was") {
  const Scratch scratch;
  Variation v{.trainer = short_iterations(scratch.path().string())};
  v.trainer.total_steps = 2880;  // 20 iterations
  {
    auto trainer = make_small_trainer("CartPole-v1", v);
    iterate(*trainer, 8);
    trainer->save();
  }
  auto trainer = make_small_trainer("CartPole-v1", v);
  CHECK(trainer->resume());
  CHECK(trainer->iterate().learning_rate == doctest::Approx(3e-4 * 0.6).epsilon(1e-6));
}
