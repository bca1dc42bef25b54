// A saved pool continues bit for bit: in a new pool, with other threads and shards, in other rows.

#include <doctest/doctest.h>

#include <map>

#include "canter/base/error.hpp"
#include "env/models.hpp"

using namespace canter;
using namespace canter::testing;
using namespace canter::mujoco;

namespace {

// a saved state with bytes of its own, which tests may change
struct Saved {
  explicit Saved(const EnvPool& pool) {
    StateDict state;
    pool.save(state);
    for (const Array& array : state.arrays()) {
      arrays.push_back(array);
      bytes.emplace_back(array.bytes.begin(), array.bytes.end());
    }
  }
  StateDict dict(const std::string& without = "") {
    StateDict state;
    for (std::size_t k = 0; k < arrays.size(); ++k) {
      if (arrays[k].name == without) continue;
      Array array = arrays[k];
      array.bytes = bytes[k];
      state.append(array);
    }
    return state;
  }
  std::vector<std::byte>& of(const std::string& name) {
    for (std::size_t k = 0; k < arrays.size(); ++k)
      if (arrays[k].name == name) return bytes[k];
    throw std::out_of_range(name);
  }
  std::vector<Array> arrays;
  std::vector<std::vector<std::byte>> bytes;
};

constexpr int kNumEnvs = 6;

std::shared_ptr<EnvPool> make_runner(const Model& model, PoolOptions options = {}) {
  options.num_envs = kNumEnvs;
  options.seed = 3;
  if (!options.num_threads) options.num_threads = 1;
  return make_pool<Runner>(model, options);
}

}  // namespace

TEST_CASE("a saved pool goes on bit for bit with any number of threads and shards") {
  for (const char* option : {"integrator=\"RK4\"", "integrator=\"implicitfast\"",
                             "integrator=\"Euler\" iterations=\"1\" ls_iterations=\"1\""}) {
    CAPTURE(option);
    const Model model = parse_model(runner_xml(option));
    auto pool = make_runner(model);
    StepBuffers step(kNumEnvs, pool->spec());
    pool->reset(step.view());
    run(*pool, step, 0, 33);  // some are in their second episode
    Saved saved(*pool);
    const Record expected = run(*pool, step, 33, 90);

    for (const PoolOptions& options : {PoolOptions{.num_threads = 1, .num_shards = 1},
                                       {.num_threads = 2, .num_shards = 4},
                                       {.num_threads = 5, .num_shards = 6},
                                       {.num_threads = 1, .persistent = true},
                                       {.env_offset = 1000, .num_threads = 1}}) {
      auto other = make_runner(model, options);
      other->load(saved.dict());
      StepBuffers out(kNumEnvs, other->spec());
      CHECK(run(*other, out, 33, 90) == expected);
    }
    // into a pool in mid-episode, and back into the pool itself
    pool->load(saved.dict());
    CHECK(run(*pool, step, 33, 90) == expected);
  }
}

TEST_CASE("the pool's latest observations come back") {
  auto pool = make_runner(parse_model(runner_xml()));
  StepBuffers step(kNumEnvs, pool->spec());
  pool->reset(step.view());
  run(*pool, step, 0, 10);
  Saved saved(*pool);
  run(*pool, step, 10, 12);
  pool->load(saved.dict());
  StepBuffers again(kNumEnvs, pool->spec());
  const std::vector<float> latest(pool->observations().begin(), pool->observations().end());
  auto fresh = make_runner(parse_model(runner_xml()));
  fresh->reset(again.view());
  run(*fresh, again, 0, 10);
  CHECK(latest == again.observations);
}

TEST_CASE("a row continues in the place of another environment") {
  auto pool = make_runner(parse_model(runner_xml()), {.num_shards = 3});
  StepBuffers step(kNumEnvs, pool->spec());
  pool->reset(step.view());
  run(*pool, step, 0, 33);
  Saved saved(*pool);
  for (std::size_t k = 0; k < saved.arrays.size(); ++k) {
    const std::size_t width = saved.bytes[k].size() / kNumEnvs;
    std::copy_n(saved.bytes[k].begin() + static_cast<std::ptrdiff_t>(3 * width), width,
                saved.bytes[k].begin() + static_cast<std::ptrdiff_t>(5 * width));
  }
  pool->load(saved.dict());
  for (int t = 33; t < 133; ++t) {
    std::vector<float> actions = random_actions(*pool, t);
    std::copy_n(actions.begin() + 6, 2, actions.begin() + 10);
    pool->step(actions, step.view());
    CHECK(row(step.observations, 3, 12) == row(step.observations, 5, 12));
    CHECK(step.rewards[3] == step.rewards[5]);
    CHECK(step.terminated[3] == step.terminated[5]);
  }
  CHECK(row(step.observations, 3, 12) != row(step.observations, 4, 12));
}

TEST_CASE("every array is needed: without its content the run goes on differently") {
  const Model model = parse_model(runner_xml("iterations=\"1\" ls_iterations=\"1\""));
  auto pool = make_runner(model);
  StepBuffers step(kNumEnvs, pool->spec());
  pool->reset(step.view());
  run(*pool, step, 0, 37);
  Saved saved(*pool);
  Record expected = run(*pool, step, 37, 90);

  std::map<std::string, bool> matters;
  for (const Array& array : saved.arrays) {
    Saved changed = saved;
    if (array.name == "env/mujoco/state") {
      // the warm start alone: with one solver iteration it shows
      const int first = mj_stateSize(model.get(), mjSTATE_TIME | mjSTATE_QPOS | mjSTATE_QVEL);
      const auto width = static_cast<std::size_t>(mj_stateSize(model.get(), mjSTATE_INTEGRATION));
      for (std::size_t i = 0; i < kNumEnvs; ++i)
        std::fill_n(
            changed.of(array.name).begin() +
                static_cast<std::ptrdiff_t>((i * width + static_cast<std::size_t>(first)) * 8),
            5 * 8, std::byte{0});
    } else if (array.name == "env/rng") {
      for (std::size_t i = 0; i < kNumEnvs; ++i) changed.of(array.name)[i * 80] ^= std::byte{1};
    } else {
      for (std::byte& b : changed.of(array.name)) b = std::byte{0};
    }
    auto other = make_runner(model);
    other->load(changed.dict());
    matters[array.name] = !(run(*other, step, 37, 90) == expected);
  }
  CHECK(matters == std::map<std::string, bool>{{"env/rng", true},
                                               {"env/steps", true},
                                               {"env/returns", true},
                                               // seen only in a row that diverges
                                               {"env/observations", false},
                                               {"env/mujoco/state", true},
                                               // counters, for the statistics
                                               {"env/mujoco/warnings", false},
                                               {"env/task/before", true},
                                               // observed after the next step only
                                               {"env/task/speed", false}});
}

TEST_CASE("a state that does not fit is refused by name and changes nothing") {
  auto pool = make_runner(parse_model(runner_xml()));
  StepBuffers step(kNumEnvs, pool->spec());
  pool->reset(step.view());
  run(*pool, step, 0, 20);
  Saved saved(*pool), good(*pool);
  run(*pool, step, 20, 30);
  Saved before(*pool);

  CHECK_THROWS_WITH_AS(pool->load(saved.dict("env/task/before")),
                       doctest::Contains("env/task/before"), CheckpointError);
  CHECK_THROWS_WITH_AS(pool->validate(saved.dict("env/rng")), doctest::Contains("env/rng"),
                       CheckpointError);
  StateDict extra = saved.dict();
  extra.append_owned<float>("env/task/goal", std::vector<float>(kNumEnvs), {kNumEnvs, 1});
  CHECK_THROWS_WITH_AS(pool->load(extra), doctest::Contains("env/task/goal"), CheckpointError);
  saved.of("env/rng")[7] = std::byte{1};  // more than 32 bits
  CHECK_THROWS_AS(pool->load(saved.dict()), CheckpointError);
  auto smaller = make_pool<Runner>(parse_model(runner_xml()), {.num_envs = kNumEnvs - 1});
  CHECK_THROWS_AS(smaller->load(good.dict()), CheckpointError);
  auto counter = make_pool<Counter>({.num_envs = kNumEnvs});
  CHECK_THROWS_AS(counter->load(good.dict()), CheckpointError);

  CHECK(Saved(*pool).bytes == before.bytes);
  pool->load(good.dict());
  CHECK(Saved(*pool).bytes == good.bytes);
}

namespace {

// a member, but no list of members
class Secretive : public Counter {
 public:
  template <class Visitor>
  void state(Visitor&) = delete;
};

enum class Mode : std::uint32_t { walk, run };

// fields of every kind
class Varied {
 public:
  Spec spec() const { return {.observation_size = 1, .action = Box{.size = 1}}; }
  void reset(Rng& rng) {
    flag_ = rng.integer(2) == 1;
    mode_ = Mode::run;
    big_ = ~std::uint64_t{0} - rng.bits();
    for (double& x : point_) x = rng.normal();
    for (float& x : path_) x = static_cast<float>(rng.uniform());
  }
  Outcome step(std::span<const float>, Rng& rng) {
    path_[3] += 1;
    return {.reward = static_cast<float>(rng.normal())};
  }
  void observe(std::span<float> out) const {
    out[0] = (flag_ ? 1.0f : 0.0f) + static_cast<float>(mode_) + static_cast<float>(big_ % 1000) +
             static_cast<float>(point_[2]) + path_[0] + path_[3];
  }
  template <class Visitor>
  void state(Visitor& v) {
    v("flag", flag_);
    v("mode", mode_);
    v("big", big_);
    v("point", point_);
    v("path", path_);
  }

 private:
  bool flag_ = false;
  Mode mode_ = Mode::walk;
  std::uint64_t big_ = 0;
  std::array<double, 3> point_{};
  std::vector<float> path_ = std::vector<float>(4);
};

class UnlistedTask : public Runner {
 public:
  template <class Visitor>
  void state(Visitor&) = delete;
};

}  // namespace

TEST_CASE("members of every kind are saved, environments in plain C++ too") {
  auto pool = make_pool<Varied>({.num_envs = 5, .seed = 4, .num_shards = 2});
  StepBuffers step(5, pool->spec());
  pool->reset(step.view());
  run(*pool, step, 0, 7);
  Saved saved(*pool);
  const Record expected = run(*pool, step, 7, 20);
  auto other = make_pool<Varied>({.num_envs = 5, .num_threads = 2, .num_shards = 5});
  other->load(saved.dict());
  CHECK(run(*other, step, 7, 20) == expected);
  for (const Array& array : saved.arrays) {
    CHECK(array.name.starts_with("env/"));
    CHECK(array.shape.at(0) == 5);
  }
}

namespace {

// a vector whose length is not the same everywhere, which a state cannot hold
class Ragged : public Varied {
 public:
  static inline bool grows = false;
  void reset(Rng& rng) {
    Varied::reset(rng);
    if (grows && rng.integer(2) == 0) list_.resize(100);
  }
  template <class Visitor>
  void state(Visitor& v) {
    v("list", list_);
  }

 private:
  std::vector<double> list_ = std::vector<double>(1);
};

}  // namespace

TEST_CASE("vectors of different lengths are refused, when saved and when loaded") {
  Ragged::grows = false;
  const PoolOptions options{.num_envs = 8, .seed = 1, .num_threads = 1};
  auto pool = make_pool<Ragged>(options), even = make_pool<Ragged>(options);
  StepBuffers step(8, pool->spec());
  even->reset(step.view());
  Saved good(*even);
  Ragged::grows = true;
  pool->reset(step.view());
  StateDict state;
  CHECK_THROWS_WITH_AS(pool->save(state), doctest::Contains("length differs"), InvalidArgument);
  CHECK_THROWS_AS(pool->load(good.dict()), Error);
  // its rows are half done now
  CHECK_THROWS_AS(run(*pool, step, 0, 1), Error);
}

TEST_CASE("a pool that cannot be saved says why") {
  auto secretive = make_pool<Secretive>({.num_envs = 2});
  CHECK(secretive->refuses_save().find("Secretive has data members") != std::string::npos);
  StepBuffers step(2, secretive->spec());
  secretive->reset(step.view());
  StateDict state;
  CHECK_THROWS_WITH_AS(secretive->save(state), doctest::Contains("Secretive"), InvalidArgument);
  auto unlisted = make_pool<UnlistedTask>(parse_model(runner_xml()));
  CHECK(unlisted->refuses_save().find("UnlistedTask") != std::string::npos);
  CHECK(make_pool<Counter>()->refuses_save().empty());
  CHECK_THROWS_AS(make_pool<Counter>()->save(state), InvalidArgument);  // before the first reset

  // sleep: its own mjData per environment, and no save
  std::string xml = runner_xml();
  const std::string end = "/><worldbody>";
  xml.replace(xml.find(end), end.size(), "><flag sleep=\"enable\"/></option><worldbody>");
  auto sleepy = make_pool<Runner>(parse_model(xml), {.num_envs = 2});
  CHECK(sleepy->options().persistent);
  CHECK(sleepy->refuses_save().find("sleep") != std::string::npos);
  StepBuffers out(2, sleepy->spec());
  sleepy->reset(out.view());
  run(*sleepy, out, 0, 50);
  CHECK_THROWS_WITH_AS(sleepy->save(state), doctest::Contains("sleep"), InvalidArgument);
}
