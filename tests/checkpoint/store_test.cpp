#include "canter/checkpoint/store.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>

#include "canter/base/error.hpp"
#include "checkpoint/scratch.hpp"

using namespace canter;
namespace fs = std::filesystem;

namespace {

// a state whose every number is derived from its step, so that mixed parts would show
std::vector<double> numbers_of(std::int64_t step) {
  std::vector<double> numbers(5000);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<double>(step) * 1000 + static_cast<double>(i);
  return numbers;
}

const CheckpointInfo kInfo{.env_first = 0,
                           .env_count = 2,
                           .components = {{"policy", 1}},
                           .provenance = {{"canter", "test"}},
                           .metrics = {{"return", 1.5}, {"loss", std::nan("")}}};

void save(CheckpointStore& store, std::int64_t step) {
  const std::vector<double> numbers = numbers_of(step);
  StateDict state;
  state.append<double>("policy/a", std::span(numbers).first(2000), {2000});
  state.append<double>("policy/b", std::span(numbers).subspan(2000), {3000});
  store.save(step, state, kInfo);
}

// the step of a checkpoint whose parts all belong to it
std::int64_t verified_step(const Checkpoint& checkpoint) {
  const std::vector<double> expected = numbers_of(checkpoint.step);
  std::vector<double> all = checkpoint.state.get<double>("policy/a", {2000});
  const std::vector<double> rest = checkpoint.state.get<double>("policy/b", {3000});
  all.insert(all.end(), rest.begin(), rest.end());
  REQUIRE(all == expected);
  return checkpoint.step;
}

fs::path folder(const Scratch& scratch, const char* step) {
  return scratch.path() / step;
}

void flip(const fs::path& file, std::int64_t offset, int bit = 0) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(offset, offset < 0 ? std::ios::end : std::ios::beg);
  const auto place = stream.tellg();
  const int byte = stream.get();
  stream.seekp(place);
  stream.put(static_cast<char>(byte ^ (1 << bit)));
  REQUIRE(stream.good());
}

}  // namespace

TEST_CASE("the newest checkpoint comes back, with everything its manifest says") {
  const Scratch scratch;
  for (const bool background : {false, true}) {
    CheckpointStore store(scratch.path() / (background ? "b" : "f"), {.background = background});
    CHECK_FALSE(store.load_newest());
    for (const std::int64_t step : {10, 20, 30}) save(store, step);
    const auto loaded = store.load_newest();
    REQUIRE(loaded);
    CHECK(verified_step(*loaded) == 30);
    CHECK(loaded->info.env_count == 2);
    CHECK(loaded->info.components.at("policy") == 1);
    CHECK(loaded->info.provenance.at("canter") == "test");
    CHECK(loaded->info.metrics.at("return") == 1.5);
    CHECK(std::isnan(loaded->info.metrics.at("loss")));
    CHECK(loaded->rejected.empty());
    CHECK(store.last_num_bytes() == 40000);
  }
}

TEST_CASE("layout: two files per step, no temporaries, the last k kept") {
  const Scratch scratch;
  CheckpointStore store(scratch.path(), {.keep_last = 2});
  for (std::int64_t step = 1; step <= 5; ++step) save(store, step);
  store.wait();
  CHECK(store.steps() == std::vector<std::int64_t>{4, 5});
  CHECK(scratch.names() ==
        std::vector<std::string>{".lock", "step-000000000004", "step-000000000005"});
  CHECK(fs::exists(folder(scratch, "step-000000000005") / "shard-00000-of-00001.safetensors"));
  CHECK(fs::exists(folder(scratch, "step-000000000005") / "MANIFEST.json"));
}

TEST_CASE("a snapshot does not see later changes") {
  const Scratch scratch;
  CheckpointStore store(scratch.path());
  std::vector<double> numbers = numbers_of(7);
  StateDict state;
  state.append<double>("policy/a", std::span(numbers).first(2000), {2000});
  state.append<double>("policy/b", std::span(numbers).subspan(2000), {3000});
  store.save(7, state, kInfo);
  numbers.assign(numbers.size(), -1);
  CHECK(verified_step(*store.load_newest()) == 7);
}

TEST_CASE("what follows a commit finds the checkpoint there, and its errors are the save's") {
  const Scratch scratch;
  CheckpointStore store(scratch.path());
  bool there = false;
  store.save(1, {}, {},
             [&] { there = fs::exists(scratch.path() / "step-000000000001" / "MANIFEST.json"); });
  store.wait();
  CHECK(there);
  store.save(2, {}, {}, [] { throw CheckpointError("no room for the rest"); });
  CHECK_THROWS_WITH_AS(store.wait(), "no room for the rest", CheckpointError);
  CHECK(store.load_newest()->step == 2);
}

TEST_CASE("saving a step again replaces it") {
  const Scratch scratch;
  CheckpointStore store(scratch.path());
  for (int round = 1; round <= 3; ++round) {
    const std::vector<int> numbers(10, round);
    StateDict state;
    state.append<int>("a", numbers, {10});
    store.save(4, state, {});
    CHECK(store.load_newest()->state.get<int>("a", {10}) == numbers);
  }
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder(scratch, "step-000000000004"))) {
    (void)entry;
    ++files;
  }
  CHECK(files == 2);
}

TEST_CASE("a damaged checkpoint is set aside by name and the one before is used") {
  const Scratch scratch;
  CheckpointStore store(scratch.path());
  for (const std::int64_t step : {1, 2, 3}) save(store, step);
  store.wait();
  const fs::path newest = folder(scratch, "step-000000000003");
  const fs::path shard = newest / "shard-00000-of-00001.safetensors";
  std::string reason;
  SUBCASE("flipped bit in the data") {
    flip(shard, -100), reason = "checksum of file 'shard";
  }
  SUBCASE("flipped bit in the header") {
    flip(shard, 9, 7), reason = "checksum of file 'shard";
  }
  SUBCASE("truncated by one byte") {
    fs::resize_file(shard, fs::file_size(shard) - 1);
    reason = "truncated";
  }
  SUBCASE("one byte more") {
    fs::resize_file(shard, fs::file_size(shard) + 1);
    reason = "bytes, expected at most";
  }
  SUBCASE("empty") {
    fs::resize_file(shard, 0), reason = "has 0 bytes";
  }
  SUBCASE("missing file") {
    fs::remove(shard), reason = "is missing";
  }
  SUBCASE("flipped bit in the manifest") {
    flip(newest / "MANIFEST.json", 200), reason = "manifest";
  }
  SUBCASE("empty manifest") {
    fs::resize_file(newest / "MANIFEST.json", 0), reason = "manifest";
  }
  SUBCASE("manifest of another step") {
    fs::copy_file(folder(scratch, "step-000000000002") / "MANIFEST.json", newest / "MANIFEST.json",
                  fs::copy_options::overwrite_existing);
    reason = "manifest is that of step 2";
  }
  const auto loaded = store.load_newest();
  REQUIRE(loaded);
  CHECK(verified_step(*loaded) == 2);
  REQUIRE(loaded->rejected.size() == 1);
  CHECK(loaded->rejected[0].starts_with("step-000000000003: "));
  CAPTURE(loaded->rejected[0]);
  CHECK(loaded->rejected[0].find(reason) != std::string::npos);
  CHECK(fs::exists(folder(scratch, ".bad-step-000000000003")));
  CHECK(store.steps() == std::vector<std::int64_t>{1, 2});
}

TEST_CASE("every single flipped bit of a manifest is found") {
  const Scratch scratch;
  CheckpointStore store(scratch.path());
  for (const std::int64_t step : {1, 2}) save(store, step);
  store.wait();
  const fs::path manifest = folder(scratch, "step-000000000002") / "MANIFEST.json";
  const auto size = static_cast<std::int64_t>(fs::file_size(manifest));
  std::int64_t accepted = 0;
  for (std::int64_t offset = 0; offset < size; ++offset) {
    flip(manifest, offset, static_cast<int>(offset % 8));
    accepted += store.load_newest()->step != 1;
    // back to where it was, for the next one
    fs::rename(folder(scratch, ".bad-step-000000000002"), folder(scratch, "step-000000000002"));
    flip(manifest, offset, static_cast<int>(offset % 8));
  }
  CHECK(accepted == 0);
  CHECK(store.load_newest()->step == 2);
}

TEST_CASE("when all are damaged it says so, and again at the next start") {
  const Scratch scratch;
  {
    CheckpointStore store(scratch.path());
    save(store, 1);
  }
  flip(folder(scratch, "step-000000000001") / "shard-00000-of-00001.safetensors", -1);
  for (int start = 0; start < 2; ++start) {
    CheckpointStore store(scratch.path());
    CHECK_THROWS_WITH_AS(store.load_newest(), doctest::Contains("no valid checkpoint is left"),
                         CheckpointError);
  }
}

TEST_CASE("a later version of the format is refused by name and left alone") {
  const Scratch scratch;
  CheckpointStore store(scratch.path());
  save(store, 1);
  store.wait();
  // the checksum is made anew by hand: digits as zeros, hashed by the writer of another file
  const fs::path manifest = folder(scratch, "step-000000000001") / "MANIFEST.json";
  std::ifstream in(manifest);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  text.replace(text.find("\"version\": 1,\n \"step\""), 12, "\"version\": 2");
  const std::size_t digits = text.find("\"xxh3\": \"") + 9;
  text.replace(digits, 32, 32, '0');
  StateDict state;
  state.append<std::uint8_t>(
      "text", std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()),
      {static_cast<std::int64_t>(text.size())});
  const std::vector<std::byte> file = to_safetensors(state, {});
  const std::string_view header(reinterpret_cast<const char*>(file.data()), 4096);
  text.replace(digits, 32, header.substr(header.find("xxh3/text\":\"") + 12, 32));
  std::ofstream(manifest) << text;
  CHECK_THROWS_WITH_AS(store.load_newest(), doctest::Contains("version 2"), CheckpointError);
  CHECK(fs::exists(manifest));
}

TEST_CASE("leftovers of a killed process are removed at the next start") {
  const Scratch scratch;
  {
    CheckpointStore store(scratch.path());
    save(store, 1);
  }
  fs::create_directory(folder(scratch, "step-000000000002"));
  std::ofstream(folder(scratch, "step-000000000002") / "shard-00000-of-00001.safetensors") << "x";
  std::ofstream(folder(scratch, "step-000000000001") / ".tmp-MANIFEST.json-1") << "x";
  std::ofstream(folder(scratch, ".tmp-something")) << "x";
  std::ofstream(folder(scratch, "notes.txt")) << "mine";
  SUBCASE("nobody writes") {
    CheckpointStore store(scratch.path());
    CHECK(scratch.names() == std::vector<std::string>{".lock", "notes.txt", "step-000000000001"});
    CHECK_FALSE(fs::exists(folder(scratch, "step-000000000001") / ".tmp-MANIFEST.json-1"));
    CHECK(verified_step(*store.load_newest()) == 1);
  }
  SUBCASE("another process writes: nothing is touched, and saving is refused") {
    const int lock = ::open((scratch.path() / ".lock").c_str(), O_RDWR);
    REQUIRE(::flock(lock, LOCK_EX) == 0);
    CheckpointStore store(scratch.path());
    CHECK(scratch.names().size() == 5);
    save(store, 3);
    CHECK_THROWS_WITH_AS(store.wait(), doctest::Contains("another process"), CheckpointError);
    CHECK(verified_step(*store.load_newest()) == 1);
    ::close(lock);
  }
}

TEST_CASE("a failed save tells at the next call, keeps the old ones and leaves nothing behind") {
  const Scratch scratch;
  CheckpointStore store(scratch.path());
  save(store, 1);
  store.wait();
  // a file where the next step's folder has to be
  std::ofstream(folder(scratch, "step-000000000002")) << "in the way";
  save(store, 2);
  SUBCASE("wait") {
    CHECK_THROWS_AS(store.wait(), CheckpointError);
  }
  SUBCASE("the next save, which is made all the same") {
    CHECK_THROWS_AS(save(store, 3), CheckpointError);
    store.wait();
    CHECK(verified_step(*store.load_newest()) == 3);
  }
  CHECK_NOTHROW(store.wait());
  CHECK_NOTHROW(store.check());
  fs::remove(folder(scratch, "step-000000000002"));
  save(store, 4);
  CHECK(verified_step(*store.load_newest()) == 4);
}

TEST_CASE("a full disk costs the save that meets it and nothing else") {
  const Scratch scratch;
  CheckpointStore store(scratch.path(), {.background = false});
  save(store, 1);
  // files of this process may not grow beyond 20 KB: half of the next shard
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20000, 20000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    int result = 1;
    try {
      save(store, 2);
    } catch (const CheckpointError& error) {
      result = std::strstr(error.what(), "cannot write") ? 0 : 2;
    }
    ::_exit(result);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(scratch.names() == std::vector<std::string>{".lock", "step-000000000001"});
  CHECK(verified_step(*store.load_newest()) == 1);
}

TEST_CASE("killed at any time: the newest or the one before is there, in one piece") {
  const Scratch scratch(Scratch::Place::memory);
  std::mt19937 random(1);
  std::int64_t newest = 0;
  for (int round = 0; round < 300; ++round) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      CheckpointStore store(scratch.path(), {.keep_last = 2, .background = round % 2 == 0});
      for (std::int64_t step = newest + 1;; ++step) {
        save(store, step);
        if (::write(ends[1], "s", 1) != 1) ::_exit(1);
      }
    }
    // after a few saves, at any time in the next one
    const auto saves = static_cast<std::int64_t>(random() % 4);
    char sign = 0;
    for (std::int64_t i = 0; i < saves; ++i) REQUIRE(::read(ends[0], &sign, 1) == 1);
    ::usleep(static_cast<useconds_t>(random() % 3000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(ends[0]);
    ::close(ends[1]);
    CheckpointStore store(scratch.path());
    const auto loaded = store.load_newest();
    // a save waits for the one before it, so all but the latest are there
    CHECK((loaded ? loaded->step : 0) >= newest + std::max<std::int64_t>(0, saves - 1));
    if (!loaded) continue;
    CHECK(loaded->rejected.empty());
    newest = verified_step(*loaded);
  }
}

TEST_CASE("bad options and places are refused") {
  const Scratch scratch;
  CHECK_THROWS_AS(CheckpointStore(scratch.path(), {.keep_last = 0}), InvalidArgument);
  std::ofstream(scratch.path() / "file") << "x";
  CHECK_THROWS_AS(CheckpointStore(scratch.path() / "file" / "x"), CheckpointError);
  CheckpointStore store(scratch.path());
  CHECK_THROWS_AS(store.save(-1, {}, {}), InvalidArgument);
}
