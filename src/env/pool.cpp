#include "canter/env/pool.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "canter/base/error.hpp"
#include "env/pool_impl.hpp"

namespace canter {

EnvPool::EnvPool(std::string name, Spec spec, PoolOptions options, std::shared_ptr<Threads> threads,
                 const ShardFactory& factory)
    : impl_(std::make_unique<Impl>(std::move(name), std::move(spec), std::move(options),
                                   std::move(threads), factory)) {}
EnvPool::~EnvPool() = default;

const Spec& EnvPool::spec() const noexcept {
  return impl_->spec;
}
const PoolOptions& EnvPool::options() const noexcept {
  return impl_->options;
}
const std::string& EnvPool::name() const noexcept {
  return impl_->name;
}
void EnvPool::set_name(std::string name) {
  impl_->name = std::move(name);
}
int EnvPool::num_envs() const noexcept {
  return impl_->options.num_envs;
}
const std::shared_ptr<Threads>& EnvPool::threads() const noexcept {
  return impl_->threads;
}
std::span<const float> EnvPool::observations() const noexcept {
  return impl_->observations;
}

void EnvPool::reset(const StepView& out) {
  const Impl::Call call(*impl_);
  impl_->check_free();
  impl_->reset_all(out);
}

void EnvPool::reset(std::uint64_t seed, const StepView& out) {
  const Impl::Call call(*impl_);
  impl_->check_free();
  impl_->reset_seeded(seed, out);
}

void EnvPool::reset(std::span<const std::uint64_t> seeds, const StepView& out) {
  const Impl::Call call(*impl_);
  impl_->check_free();
  check_size("seeds", seeds.size(), static_cast<std::size_t>(num_envs()), 1);
  impl_->check_view(out);
  impl_->options.seeds.assign(seeds.begin(), seeds.end());
  impl_->seed_all();
  impl_->reset_all(out);
}

void EnvPool::reset(std::span<const std::uint8_t> mask, const StepView& out) {
  const Impl::Call call(*impl_);
  impl_->check_free();
  impl_->reset_masked(mask, out);
}

void EnvPool::step(std::span<const float> actions, const StepView& out) {
  const Impl::Call call(*impl_);
  impl_->check_free();
  impl_->step_all(actions, out);
}

EnvState EnvPool::state(int i) const {
  const Impl::Call call(*impl_);
  Impl::Slice& slice = impl_->slice_of(impl_->check_index(i));
  return slice.shard->state(i - slice.first);
}

void EnvPool::reset_to(int i, std::span<const double> qpos, std::span<const double> qvel,
                       std::span<float> observation) {
  Impl& pool = *impl_;
  const Impl::Call call(pool);
  pool.check_free();
  Impl::Slice& slice = pool.slice_of(pool.check_index(i));
  const int row = i - slice.first;
  const EnvState now = slice.shard->state(row);
  check_size("qpos", qpos.size(), 1, now.qpos.size());
  check_size("qvel", qvel.size(), 1, now.qvel.size());
  check_size("observation", observation.size(), 1, pool.observation_size);
  auto finite = [](double x) { return std::isfinite(x); };
  if (!std::ranges::all_of(qpos, finite) || !std::ranges::all_of(qvel, finite))
    throw InvalidArgument("reset_to: qpos and qvel must be finite");
  pool.check_sound();
  pool.restart_row(slice, row, qpos, qvel);
  std::ranges::copy(pool.last_observation(static_cast<std::size_t>(i)), observation.begin());
  pool.throw_faults();
}

std::string EnvPool::model_hash() const {
  return impl_->slices.front().shard->model_hash();
}

std::string EnvPool::refuses_save() const {
  return impl_->slices.front().shard->refuses_save();
}

void EnvPool::save(StateDict& state) const {
  const Impl::Call call(*impl_);
  impl_->save(state);
}

void EnvPool::validate(const StateDict& state) const {
  const Impl::Call call(*impl_);
  impl_->validate(state);
}

void EnvPool::load(const StateDict& state) {
  const Impl::Call call(*impl_);
  impl_->check_free();
  impl_->load(state);
}

PoolStatistics EnvPool::statistics() const {
  const Impl::Call call(*impl_);
  PoolStatistics total;
  total.env_steps = impl_->num_steps * impl_->options.num_envs;
  total.num_threads = impl_->options.num_threads;
  total.num_shards = impl_->options.num_shards;
  for (const Impl::Slice& slice : impl_->slices) {
    total.episodes += slice.episodes;
    total.terminated += slice.terminated;
    total.truncated += slice.truncated;
    total.diverged += slice.diverged;
    WarningCounts counts;
    slice.shard->count_warnings(counts);
    for (auto& [text, number] : counts) {
      auto same = std::ranges::find(total.warnings, text, &WarningCounts::value_type::first);
      if (same == total.warnings.end())
        total.warnings.emplace_back(std::move(text), number);
      else
        same->second += number;
    }
  }
  return total;
}

EnvPool::Hold::Hold(EnvPool& pool, std::string holder) : pool_(pool) {
  const Impl::Call call(*pool.impl_);
  pool.impl_->check_free();
  pool.impl_->holder = std::move(holder);
  pool.impl_->held = true;
}

EnvPool::Hold::~Hold() {
  pool_.impl_->held = false;
}

void EnvPool::Hold::reset(const StepView& out) {
  const Impl::Call call(*pool_.impl_);
  pool_.impl_->reset_all(out);
}

void EnvPool::Hold::reset(std::uint64_t seed, const StepView& out) {
  const Impl::Call call(*pool_.impl_);
  pool_.impl_->reset_seeded(seed, out);
}

void EnvPool::Hold::step(std::span<const float> actions, const StepView& out) {
  const Impl::Call call(*pool_.impl_);
  pool_.impl_->step_all(actions, out);
}

void EnvPool::Hold::load(const StateDict& state) {
  const Impl::Call call(*pool_.impl_);
  pool_.impl_->load(state);
}

}  // namespace canter
