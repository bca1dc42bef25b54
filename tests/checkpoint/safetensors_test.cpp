#include "canter/checkpoint/safetensors.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <string>

#include "canter/base/error.hpp"
#include "checkpoint/scratch.hpp"

using namespace canter;

namespace {

constexpr std::array<float, 6> kMatrix{1, 2, 3, 4, 5, 6.5f};
constexpr std::array<double, 3> kVector{0.5, -1e300, 3};
constexpr std::array<std::uint8_t, 5> kOctets{1, 2, 3, 4, 255};

StateDict sample_state() {
  StateDict state;
  state.append<float>("policy/weight", kMatrix, {2, 3});
  state.append<double>("env/qpos", kVector, {3, 1});
  state.append<std::uint8_t>("cereal/trainer", kOctets, {5});
  state.append<std::int64_t>("nothing", std::span<const std::int64_t>{}, {0, 4});
  return state;
}

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::string complaint(std::vector<std::byte> bytes) {
  try {
    parse_safetensors(std::move(bytes), "some file");
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a file holds what was put in") {
  const SafetensorsFile file =
      parse_safetensors(to_safetensors(sample_state(), {{"kind", "mlp"}, {"text", "a\"ü\n"}}), "x");
  CHECK(file.metadata.at("kind") == "mlp");
  CHECK(file.metadata.at("text") == "a\"ü\n");
  CHECK(file.metadata.at("format") == "canter");
  REQUIRE(file.arrays.arrays().size() == 4);
  CHECK(file.arrays.get<float>("policy/weight", {2, 3}) ==
        std::vector<float>(kMatrix.begin(), kMatrix.end()));
  CHECK(file.arrays.get<double>("env/qpos", {3, 1}) ==
        std::vector<double>(kVector.begin(), kVector.end()));
  CHECK(file.arrays.get<std::uint8_t>("cereal/trainer", {5}) ==
        std::vector<std::uint8_t>(kOctets.begin(), kOctets.end()));
  CHECK(file.arrays.get<std::int64_t>("nothing", {0, 4}).empty());
  CHECK(file.arrays.arrays()[0].name == "policy/weight");
}

TEST_CASE("data start at 4096 and arrays are aligned to 64 bytes") {
  const std::vector<std::byte> bytes = to_safetensors(sample_state(), {});
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  CHECK((header + 8) % 4096 == 0);
  const SafetensorsFile file = parse_safetensors(bytes, "x");
  for (const Array& array : file.arrays.arrays()) {
    const auto offset = static_cast<std::size_t>(array.bytes.data() - file.bytes.data());
    if (!array.bytes.empty()) CHECK(offset % 64 == 0);
  }
}

TEST_CASE("an empty dictionary is a file too") {
  CHECK(parse_safetensors(to_safetensors({}, {}), "x").arrays.arrays().empty());
}

TEST_CASE("metadata that JSON writes six times as long") {
  const std::string text(10000, '\x01');
  const SafetensorsFile file =
      parse_safetensors(to_safetensors(sample_state(), {{"k", text}}), "x");
  CHECK(file.metadata.at("k") == text);
  CHECK(file.arrays.get<double>("env/qpos", {3, 1})[1] == -1e300);
}

TEST_CASE("every single flipped bit is refused") {
  const std::vector<std::byte> good = to_safetensors(sample_state(), {{"kind", "mlp"}});
  REQUIRE(complaint(good).empty());
  int accepted = 0;
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::vector<std::byte> bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    accepted += complaint(std::move(bad)).empty();
  }
  CHECK(accepted == 0);
}

TEST_CASE("every truncation and every appended byte is refused") {
  const std::vector<std::byte> good = to_safetensors(sample_state(), {});
  int accepted = 0;
  for (std::size_t size = 0; size < good.size(); ++size)
    accepted += complaint({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}).empty();
  CHECK(accepted == 0);
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  CHECK(complaint(longer).find("some file") != std::string::npos);
}

TEST_CASE("damage is named") {
  std::vector<std::byte> bytes = to_safetensors(sample_state(), {});
  bytes[4096 + 3] ^= std::byte{1};
  CHECK(complaint(bytes).find("checksum of array 'policy/weight' differs") != std::string::npos);
  const std::string foreign = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(foreign.size() + 100);
  file += foreign + std::string(100, ' ') + "1234";
  CHECK(complaint(bytes_of(file)).find("not written by canter") != std::string::npos);
}

TEST_CASE("reserved names and text that is not UTF-8 are refused") {
  StateDict state;
  state.append<float>("__metadata__", kMatrix, {6});
  CHECK_THROWS_AS(to_safetensors(state, {}), InvalidArgument);
  CHECK_THROWS_AS(to_safetensors({}, {{"xxh3/a", "0"}}), InvalidArgument);
  CHECK_THROWS_AS(to_safetensors({}, {{"key", "\xff"}}), InvalidArgument);
}

TEST_CASE("files are written whole or not at all") {
  const Scratch scratch;
  const auto path = scratch.path() / "a file.safetensors";
  write_safetensors(path, sample_state(), {{"round", "1"}});
  CHECK(read_safetensors(path).metadata.at("round") == "1");
  write_safetensors(path, sample_state(), {{"round", "2"}});
  CHECK(read_safetensors(path).metadata.at("round") == "2");
  CHECK(scratch.names() == std::vector<std::string>{"a file.safetensors"});

  SUBCASE("errors name the path and the system's reason") {
    CHECK_THROWS_WITH_AS(read_safetensors(scratch.path() / "none"),
                         doctest::Contains("none': no such file"), CheckpointError);
    CHECK_THROWS_AS(read_safetensors(scratch.path()), CheckpointError);
    CHECK_THROWS_WITH_AS(write_safetensors(path / "x", sample_state(), {}),
                         doctest::Contains("Not a directory"), CheckpointError);
  }
  SUBCASE("a failed write leaves the old files and no temporary") {
    // the name is taken by a folder: the rename fails after everything was written
    std::filesystem::create_directory(scratch.path() / "taken");
    CHECK_THROWS_AS(write_safetensors(scratch.path() / "taken", sample_state(), {}),
                    CheckpointError);
    CHECK(scratch.names() == std::vector<std::string>{"a file.safetensors", "taken"});
  }
  SUBCASE("a pipe is refused, not waited for") {
    const auto pipe = scratch.path() / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK_THROWS_WITH_AS(read_safetensors(pipe), doctest::Contains("regular"), CheckpointError);
    // nor does a write put a file in its place, as it would for /dev/null
    CHECK_THROWS_WITH_AS(write_safetensors(pipe, sample_state(), {}), doctest::Contains("regular"),
                         CheckpointError);
    CHECK(std::filesystem::is_fifo(pipe));
  }
}
