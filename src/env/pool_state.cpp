// Saving and loading a pool: its own arrays and those of its shards, gathered by environment.

#include <algorithm>

#include "canter/base/error.hpp"
#include "env/pool_impl.hpp"

namespace canter {
namespace {

using Words = std::array<std::uint32_t, Rng::kStateSize>;

// words of every stream, widened: the file formats have no 32-bit unsigned integers
std::vector<std::uint64_t> words_of(const std::vector<Rng>& rngs) {
  std::vector<std::uint64_t> words;
  words.reserve(rngs.size() * Rng::kStateSize);
  for (const Rng& rng : rngs)
    for (const std::uint32_t word : rng.state()) words.push_back(word);
  return words;
}

std::vector<Rng> rngs_of(const std::vector<std::uint64_t>& words) {
  std::vector<Rng> rngs(words.size() / Rng::kStateSize);
  for (std::size_t i = 0; i < rngs.size(); ++i) {
    Words state{};
    for (std::size_t k = 0; k < state.size(); ++k) {
      const std::uint64_t word = words[i * state.size() + k];
      if (word > 0xffffffffu) throw CheckpointError("env/rng: not a state of a random stream");
      state[k] = static_cast<std::uint32_t>(word);
    }
    rngs[i].set_state(state);
  }
  return rngs;
}

// the rows of one shard in each of the gathered arrays
template <class Byte, class Array>
std::vector<std::span<Byte>> slices_of(std::vector<Array>& arrays, std::size_t num_envs, int first,
                                       int count) {
  std::vector<std::span<Byte>> parts;
  for (Array& array : arrays) {
    const std::span<Byte> bytes(array);
    const std::size_t row = bytes.size() / num_envs;
    parts.push_back(bytes.subspan(static_cast<std::size_t>(first) * row,
                                  static_cast<std::size_t>(count) * row));
  }
  return parts;
}

}  // namespace

std::vector<StateField> EnvPool::Impl::shard_fields() const {
  return slices.front().shard->state_fields();
}

void EnvPool::Impl::save(StateDict& state) const {
  const std::string refusal = slices.front().shard->refuses_save();
  if (!refusal.empty()) throw InvalidArgument("pool '" + name + "' cannot be saved: " + refusal);
  check_sound();
  if (num_started < options.num_envs) throw InvalidArgument("save: reset the pool first");

  const auto num_envs = static_cast<std::size_t>(options.num_envs);
  const std::int64_t n = options.num_envs;
  const std::vector<StateField> fields = shard_fields();
  saved.resize(fields.size());
  for (std::size_t k = 0; k < fields.size(); ++k)
    saved[k].resize(num_envs * static_cast<std::size_t>(fields[k].size) * size_of(fields[k].dtype));
  for (const Slice& slice : slices)
    slice.shard->save(slices_of<std::byte>(saved, num_envs, slice.first, slice.count));

  state.append_owned<std::uint64_t>("env/rng", words_of(rngs), {n, Rng::kStateSize});
  state.append<std::int32_t>("env/steps", steps, {n});
  state.append<double>("env/returns", returns, {n});
  state.append<float>("env/observations", observations, {n, spec.observation_size});
  for (std::size_t k = 0; k < fields.size(); ++k)
    state.append(Array{"env/" + fields[k].name, fields[k].dtype, {n, fields[k].size}, saved[k]});
}

void EnvPool::Impl::validate(const StateDict& state) const {
  const std::string refusal = slices.front().shard->refuses_save();
  if (!refusal.empty()) throw CheckpointError("pool '" + name + "' cannot be loaded: " + refusal);
  const std::int64_t n = options.num_envs;
  rngs_of(state.get<std::uint64_t>("env/rng", {n, Rng::kStateSize}));
  for (const std::int32_t count : state.get<std::int32_t>("env/steps", {n}))
    if (count < 0) throw CheckpointError("env/steps must be >= 0, got " + std::to_string(count));
  state.checked("env/returns", Dtype::f64, {n});
  state.checked("env/observations", Dtype::f32, {n, spec.observation_size});

  std::vector<std::string> known = {"env/rng", "env/steps", "env/returns", "env/observations"};
  for (const StateField& field : shard_fields()) {
    known.push_back("env/" + field.name);
    state.checked(known.back(), field.dtype, {n, field.size});
  }
  for (const Array& array : state.arrays())
    if (array.name.starts_with("env/") && std::ranges::find(known, array.name) == known.end())
      throw CheckpointError("pool '" + name + "' has no state '" + array.name + "'");
}

void EnvPool::Impl::load(const StateDict& state) {
  validate(state);
  const std::int64_t n = options.num_envs;
  std::vector<std::span<const std::byte>> arrays;
  for (const StateField& field : shard_fields())
    arrays.push_back(state.find("env/" + field.name)->bytes);
  // a shard that throws leaves rows half done
  faulted = true;
  rngs = rngs_of(state.get<std::uint64_t>("env/rng", {n, Rng::kStateSize}));
  steps = state.get<std::int32_t>("env/steps", {n});
  returns = state.get<double>("env/returns", {n});
  observations = state.get<float>("env/observations", {n, spec.observation_size});
  for (Slice& slice : slices) {
    slice.shard->load(
        slices_of<const std::byte>(arrays, static_cast<std::size_t>(n), slice.first, slice.count));
    slice.faults.clear();
  }
  std::ranges::fill(started, std::uint8_t{1});
  num_started = options.num_envs;
  faulted = false;
}

}  // namespace canter
