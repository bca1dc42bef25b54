#pragma once
// Environment: any simulator that fits into a C++ class. Write four functions, and make_pool turns
// the class into a vectorised pool; there is nothing to derive from.
//
//   class Walk {                                        // a walk on a line; reach 10
//    public:
//     canter::Spec spec() const {
//       return {.observation_size = 1, .action = canter::Box{.size = 1, .low = -1, .high = 1}};
//     }
//     void reset(canter::Rng& rng) { x_ = static_cast<float>(rng.uniform(-1, 1)); }
//     canter::Outcome step(std::span<const float> action, canter::Rng&) {
//       x_ += action[0];
//       return {.reward = -1, .terminated = x_ >= 10};
//     }
//     void observe(std::span<float> out) const { out[0] = x_; }
//     template <class Visitor> void state(Visitor& v) { v("x", x_); }   // what a checkpoint holds
//    private:
//     float x_ = 0;
//   };
//   auto pool = canter::make_pool<Walk>({.num_envs = 64, .seed = 7});

#include <concepts>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "canter/base/rng.hpp"
#include "canter/base/spec.hpp"
#include "canter/env/pool.hpp"
#include "canter/env/shard.hpp"
#include "canter/env/state_visitor.hpp"

namespace canter {

/// What one step of an environment came to.
struct Outcome {
  float reward = 0;
  bool terminated = false;  ///< the task ended the episode (time limits are the pool's business)
};

/// A simulator that owns its step. Optional beside these: `measure(std::span<float>) const`, which
/// fills Spec.metrics after each step, and `state` (see state_visitor.hpp), without which a class
/// with data members cannot be saved.
///   spec() const      sizes and bounds; the same for all objects
///   reset(rng)        starts an episode; all randomness comes from rng
///   step(action, rng) float[action_size] -> outcome; a discrete action is action[0]
///   observe(out)      writes float[observation_size]; called once per step and once per reset
/// Hooks may throw: the pool reports the environment's index in an EnvError.
template <class E>
concept Environment = std::movable<E> &&
    requires(E env, const E& view, Rng& rng, std::span<const float> action, std::span<float> out) {
  { view.spec() } -> std::convertible_to<Spec>;
  env.reset(rng);
  { env.step(action, rng) } -> std::convertible_to<Outcome>;
  view.observe(out);
};

namespace detail {

/// @throws InvalidArgument when a spec names metrics and the type has no `measure`.
void check_metrics(const Spec& spec, bool measures, const std::string& type);

/// Records the exception in flight as a fault of a row.
void add_fault(Faults& faults, int row, const char* hook);

/// Row j of an array of equal rows.
template <class T>
std::span<T> row_of(std::span<T> array, int j, int width) {
  const auto size = static_cast<std::size_t>(width);
  return array.subspan(static_cast<std::size_t>(j) * size, size);
}

/// A range of environments that own their step.
template <Environment E>
class EnvironmentShard final : public Shard {
 public:
  EnvironmentShard(std::vector<E> envs, const Spec& spec)
      : envs_(std::move(envs)),
        observation_size_(spec.observation_size),
        action_size_(spec.action_size()),
        num_metrics_(static_cast<int>(spec.metrics.size())) {}

  void step(const ShardRows& rows, Faults& faults) override {
    for (int j = 0; j < static_cast<int>(envs_.size()); ++j) {
      const auto row = static_cast<std::size_t>(j);
      if (rows.diverged[row]) continue;
      try {
        const Outcome outcome =
            envs_[row].step(row_of(rows.actions, j, action_size_), rows.rngs[row]);
        rows.rewards[row] = outcome.reward;
        rows.terminated[row] = outcome.terminated;
        if constexpr (requires(const E& e, std::span<float> out) { e.measure(out); }) {
          if (!rows.metrics.empty()) envs_[row].measure(row_of(rows.metrics, j, num_metrics_));
        }
        envs_[row].observe(row_of(rows.observations, j, observation_size_));
      } catch (...) {
        add_fault(faults, j, "step");
      }
    }
  }

  void reset(std::span<const int> ids, const ShardRows& rows, Faults& faults) override {
    for (const int j : ids) {
      const auto row = static_cast<std::size_t>(j);
      try {
        envs_[row].reset(rows.rngs[row]);
        envs_[row].observe(row_of(rows.observations, j, observation_size_));
      } catch (...) {
        add_fault(faults, j, "reset");
      }
    }
  }

  std::string refuses_save() const override { return detail::refuses_save<E>(typeid(E).name()); }

  std::vector<StateField> state_fields() const override {
    return detail::state_fields(const_cast<E&>(envs_.front()));
  }

  void save(std::span<const std::span<std::byte>> fields) const override {
    if constexpr (HasState<E>) {
      const int size = static_cast<int>(envs_.size());
      for (int j = 0; j < size; ++j) {
        StateSaver saver(fields, j, size);
        const_cast<E&>(envs_[static_cast<std::size_t>(j)]).state(saver);
      }
    }
  }

  void load(std::span<const std::span<const std::byte>> fields) override {
    if constexpr (HasState<E>) {
      const int size = static_cast<int>(envs_.size());
      for (int j = 0; j < size; ++j) {
        StateLoader loader(fields, j, size);
        envs_[static_cast<std::size_t>(j)].state(loader);
      }
    }
  }

 private:
  std::vector<E> envs_;
  int observation_size_, action_size_, num_metrics_;
};

}  // namespace detail

/// A pool of environments made by `factory() -> E`.
/// @throws InvalidArgument for bad options or a contradictory spec.
template <Environment E, class Factory>
std::shared_ptr<EnvPool> make_pool(PoolOptions options, Factory factory) {
  const Spec spec = factory().spec();
  detail::check_metrics(
      spec, requires(const E& e, std::span<float> out) { e.measure(out); },
      detail::type_name(typeid(E).name()));
  auto make_shard = [&](int, int count) -> std::unique_ptr<Shard> {
    std::vector<E> envs;
    envs.reserve(static_cast<std::size_t>(count));
    for (int j = 0; j < count; ++j) envs.push_back(factory());
    return std::make_unique<detail::EnvironmentShard<E>>(std::move(envs), spec);
  };
  return std::make_shared<EnvPool>(detail::type_name(typeid(E).name()), spec, std::move(options),
                                   nullptr, make_shard);
}

/// A pool of default-constructed environments.
template <Environment E>
std::shared_ptr<EnvPool> make_pool(PoolOptions options = {}) {
  return make_pool<E>(std::move(options), [] { return E(); });
}

}  // namespace canter
