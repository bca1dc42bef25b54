#include "trainer_state.hpp"

#include <cereal/archives/portable_binary.hpp>
#include <cmath>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

#include "canter/base/error.hpp"

namespace canter::detail {
namespace {

constexpr const char* kCountersName = "cereal/trainer";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kMaxSize = 64 * 1024;

bool is_time(std::string_view name) {
  return name.starts_with("time_") || name == "seconds" || name == "steps_per_second";
}

struct Counters {
  Report& report;
  template <class Archive>
  void serialize(Archive& archive) {
    visit(report, [&](std::string_view name, auto& field) {
      if (!is_time(name)) archive(field);
    });
  }
};

struct Clock {
  double& seconds;
  std::uint64_t& metrics_size;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(seconds, metrics_size);
  }
};

template <class Part>
void append(StateDict& state, const char* name, Part part) {
  std::ostringstream stream;
  {
    cereal::PortableBinaryOutputArchive archive(stream);
    archive(kVersion, part);
  }
  const std::string bytes = stream.str();
  state.append_owned<std::uint8_t>(
      name, std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()),
      {static_cast<std::int64_t>(bytes.size())});
}

template <class Part>
void read(const StateDict& state, const char* name, Part part) {
  const Array* array = state.find(name);
  const auto fail = [&](const std::string& reason) {
    throw CheckpointError(std::string("array '") + name + "' " + reason);
  };
  if (array == nullptr) fail("is missing");
  if (array->dtype != Dtype::u8 || array->bytes.size() > kMaxSize) fail("is not a saved struct");
  std::istringstream stream(
      std::string(reinterpret_cast<const char*>(array->bytes.data()), array->bytes.size()));
  try {
    cereal::PortableBinaryInputArchive archive(stream);
    std::uint32_t version = 0;
    archive(version);
    if (version != kVersion)
      fail("has version " + std::to_string(version) + ", expected " + std::to_string(kVersion));
    archive(part);
  } catch (const cereal::Exception& error) {
    fail(std::string("cannot be read: ") + error.what());
  }
  if (stream.peek() != std::istringstream::traits_type::eof()) fail("is too long");
}

}  // namespace

void TrainerState::save(StateDict& state) const {
  TrainerState copy = *this;
  append(state, kCountersName, Counters{copy.report});
  append(state, kClockName, Clock{copy.seconds, copy.metrics_size});
}

TrainerState TrainerState::read(const StateDict& state) {
  TrainerState out;
  detail::read(state, kCountersName, Counters{out.report});
  detail::read(state, kClockName, Clock{out.seconds, out.metrics_size});
  const Report& r = out.report;
  if (r.iteration < 0 || r.env_steps < 0 || r.episodes < 0 || !(out.seconds >= 0))
    throw CheckpointError("array 'cereal/trainer' has counters below zero");
  return out;
}

}  // namespace canter::detail
