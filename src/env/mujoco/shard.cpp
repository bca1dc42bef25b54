#include "env/mujoco/shard.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "canter/base/error.hpp"
#include "env/mujoco/log.hpp"

namespace canter::mujoco {

using canter::detail::add_fault;
using canter::detail::row_of;

// what the functions that MuJoCo calls back need to know
struct TaskShard::Call {
  TaskShard* shard;
  const ShardRows* rows;
  Faults* faults;
  const double* qpos = nullptr;  // start of reset_to, or null: the task draws one
  const double* qvel = nullptr;
};

namespace {

int count_bad(const mjData* d) {
  return d->warning[mjWARN_BADQPOS].number + d->warning[mjWARN_BADQVEL].number +
         d->warning[mjWARN_BADQACC].number;
}

// the check that the next mj_step would begin with (NaN, or beyond mjMAXVAL), counted like there
bool check_range(mjData* d, mjtWarning kind, const double* numbers, int size) {
  for (int i = 0; i < size; ++i) {
    if (std::abs(numbers[i]) <= mjMAXVAL) continue;
    d->warning[kind].lastinfo = i;
    ++d->warning[kind].number;
    return false;
  }
  return true;
}

// the physics of one environment step; false when it blew up.
// plain C: MuJoCo leaves a fatal error by longjmp, so no frame down to mjb_apply may own anything
bool advance(const mjModel* m, mjData* d, int num_substeps) {
  const int bad_before = count_bad(d);
  for (int k = 0; k < num_substeps; ++k) {
    mj_step(m, d);
    if (count_bad(d) != bad_before) return false;
  }
  return check_range(d, mjWARN_BADQPOS, d->qpos, static_cast<int>(m->nq)) &&
         check_range(d, mjWARN_BADQVEL, d->qvel, static_cast<int>(m->nv));
}

struct MakeBatch {
  const mjModel* model;
  int size;
  mjBatchConfig config;
  mjBatch* batch;
  char text[1024];
};

void make_batch(void* argument) {
  auto& make = *static_cast<MakeBatch*>(argument);
  make.batch = mjb_makeBatch(make.model, make.size, &make.config, make.text, sizeof make.text);
}

}  // namespace

std::string bookkeeping_outside_state(const mjModel& model) {
  if (model.opt.enableflags & mjENBL_SLEEP)
    return "the model has sleep enabled, and MuJoCo keeps its bookkeeping outside of the state";
  if (model.opt.enableflags & mjENBL_IPC)
    return "the model has IPC enabled, and MuJoCo keeps its bookkeeping outside of the state";
  return "";
}

void TaskShard::DeleteBatch::operator()(mjBatch* batch) const {
  const LogGuard guard;
  mjb_deleteBatch(batch);
}

TaskShard::TaskShard(Model model, const Spec& spec, int size, bool persistent,
                     std::unique_ptr<detail::TaskList> tasks)
    : model_(std::move(model)),
      tasks_(std::move(tasks)),
      size_(size),
      frame_skip_(spec.frame_skip),
      observation_size_(spec.observation_size),
      action_size_(spec.action_size()),
      num_metrics_(static_cast<int>(spec.metrics.size())),
      post_constraint_(spec.post_constraint) {
  MakeBatch make{model_.get(), size, {}, nullptr, ""};
  mjb_defaultConfig(&make.config);
  make.config.nthread = 1;
  make.config.persistent = persistent;
  std::string fatal;
  if (!run_trapped(make_batch, &make, fatal) || !make.batch)
    throw ModelError("cannot simulate " + model_.source() + ": " +
                     (fatal.empty() ? make.text : fatal));
  batch_.reset(make.batch);
}

void TaskShard::apply(const int* ids, int num_ids, mjfBatchFunc function, Call& call) {
  const LogGuard guard;
  if (mjb_apply(batch_.get(), ids, num_ids, function, &call, 1) == 0) return;
  const int* status = mjb_status(batch_.get());
  for (int k = 0; k < num_ids; ++k) {
    const int row = ids ? ids[k] : k;
    if (status[row])
      call.faults->push_back({row, std::string("MuJoCo: ") + mjb_error(batch_.get(), row)});
  }
}

void TaskShard::step(const ShardRows& rows, Faults& faults) {
  Call call{this, &rows, &faults};
  apply(nullptr, size_, step_row, call);
}

void TaskShard::step_row(const mjModel* m, mjData* d, int row, void* argument) {
  Call& call = *static_cast<Call*>(argument);
  TaskShard& shard = *call.shard;
  std::uint8_t& diverged = call.rows->diverged[static_cast<std::size_t>(row)];
  if (diverged) return;
  if (!shard.before_step(call, m, d, row)) return;
  if (!advance(m, d, shard.frame_skip_)) {
    diverged = 1;
    return;
  }
  if (shard.post_constraint_) mj_rnePostConstraint(m, d);
  shard.after_step(call, m, d, row);
}

bool TaskShard::before_step(Call& call, const mjModel* m, mjData* d, int row) {
  Simulation sim(*m, *d, call.rows->rngs[static_cast<std::size_t>(row)]);
  try {
    tasks_->before_step(row, sim, row_of(call.rows->actions, row, action_size_));
    return true;
  } catch (...) {
    add_fault(*call.faults, row, "before_step");
  }
  // the mjData is shared: leave nothing half done to the next environment
  mj_resetData(m, d);
  return false;
}

void TaskShard::after_step(Call& call, const mjModel* m, mjData* d, int row) {
  const ShardRows& rows = *call.rows;
  const auto i = static_cast<std::size_t>(row);
  const Simulation sim(*m, *d, rows.rngs[i]);
  try {
    const Outcome outcome = tasks_->after_step(row, sim, row_of(rows.actions, row, action_size_));
    rows.rewards[i] = outcome.reward;
    rows.terminated[i] = outcome.terminated;
    if (!rows.metrics.empty()) tasks_->measure(row, sim, row_of(rows.metrics, row, num_metrics_));
    tasks_->observe(row, sim, row_of(rows.observations, row, observation_size_));
    return;
  } catch (...) {
    add_fault(*call.faults, row, "after_step, measure or observe");
  }
  mj_resetData(m, d);
}

void TaskShard::reset(std::span<const int> ids, const ShardRows& rows, Faults& faults) {
  Call call{this, &rows, &faults};
  apply(ids.data(), static_cast<int>(ids.size()), reset_row, call);
}

void TaskShard::reset_to(int row, std::span<const double> qpos, std::span<const double> qvel,
                         const ShardRows& rows, Faults& faults) {
  Call call{this, &rows, &faults, qpos.data(), qvel.data()};
  apply(&row, 1, reset_row, call);
}

void TaskShard::reset_row(const mjModel* m, mjData* d, int row, void* argument) {
  Call& call = *static_cast<Call*>(argument);
  TaskShard& shard = *call.shard;
  shard.retire_warnings(d->warning, +1);
  mj_resetData(m, d);
  if (!shard.write_start(call, m, d, row)) return;
  mj_forward(m, d);
  shard.after_reset(call, m, d, row);
}

bool TaskShard::write_start(Call& call, const mjModel* m, mjData* d, int row) {
  if (call.qpos) {
    std::copy_n(call.qpos, m->nq, d->qpos);
    std::copy_n(call.qvel, m->nv, d->qvel);
    return true;
  }
  Simulation sim(*m, *d, call.rows->rngs[static_cast<std::size_t>(row)]);
  try {
    tasks_->reset(row, sim);
    return true;
  } catch (...) {
    add_fault(*call.faults, row, "reset");
  }
  mj_resetData(m, d);
  return false;
}

void TaskShard::after_reset(Call& call, const mjModel* m, mjData* d, int row) {
  const Simulation sim(*m, *d, call.rows->rngs[static_cast<std::size_t>(row)]);
  try {
    tasks_->after_reset(row, sim);
    tasks_->observe(row, sim, row_of(call.rows->observations, row, observation_size_));
    return;
  } catch (...) {
    add_fault(*call.faults, row, "after_reset or observe");
  }
  mj_resetData(m, d);
}

EnvState TaskShard::state(int row) const {
  mjBatch* batch = batch_.get();
  const int size = mjb_nstate(batch);
  const std::size_t offset = static_cast<std::size_t>(row) * static_cast<std::size_t>(size);
  auto component = [&](mjtState kind) {
    int width = 0;
    const double* first = mjb_stateComponent(batch, kind, &width) + offset;
    return std::vector<double>(first, first + width);
  };
  const double* first = mjb_state(batch) + offset;
  return {component(mjSTATE_QPOS), component(mjSTATE_QVEL), component(mjSTATE_TIME).front(),
          std::vector<double>(first, first + size)};
}

std::string TaskShard::refuses_save() const {
  const std::string task = tasks_->refuses_save();
  return task.empty() ? bookkeeping_outside_state(*model_) : task;
}

// FNV-1a (Fowler, Noll, Vo) over the compiled model as MuJoCo writes it
std::string TaskShard::model_hash() const {
  const LogGuard guard;
  std::vector<unsigned char> bytes(static_cast<std::size_t>(mj_sizeModel(model_.get())));
  mj_saveModel(model_.get(), nullptr, bytes.data(), static_cast<int>(bytes.size()));
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

std::vector<StateField> TaskShard::state_fields() const {
  std::vector<StateField> fields = {
      {"mujoco/state", Dtype::f64, mjb_nstate(batch_.get())},
      {"mujoco/warnings", Dtype::i32, 2 * mjNWARNING},
  };
  for (StateField& field : tasks_->state_fields()) fields.push_back(std::move(field));
  return fields;
}

void TaskShard::save(std::span<const std::span<std::byte>> fields) const {
  static_assert(sizeof(mjWarningStat) == 2 * sizeof(std::int32_t));
  std::memcpy(fields[0].data(), mjb_state(batch_.get()), fields[0].size());
  std::memcpy(fields[1].data(), mjb_warning(batch_.get()), fields[1].size());
  tasks_->save(fields.subspan(2));
}

void TaskShard::load(std::span<const std::span<const std::byte>> fields) {
  // statistics count what happened in this pool: neither the old rows' warnings are forgotten, nor
  // the loaded ones' counted
  mjWarningStat* warnings = mjb_warning(batch_.get());
  for (int row = 0; row < size_; ++row) retire_warnings(warnings + row * mjNWARNING, +1);
  std::memcpy(mjb_state(batch_.get()), fields[0].data(), fields[0].size());
  std::memcpy(warnings, fields[1].data(), fields[1].size());
  for (int row = 0; row < size_; ++row) retire_warnings(warnings + row * mjNWARNING, -1);
  tasks_->load(fields.subspan(2));
}

void TaskShard::retire_warnings(const mjWarningStat* warnings, std::int64_t sign) {
  for (int kind = 0; kind < mjNWARNING; ++kind) {
    if (warnings[kind].number == 0) continue;
    retired_[static_cast<std::size_t>(kind)] += sign * warnings[kind].number;
    last_info_[static_cast<std::size_t>(kind)] = warnings[kind].lastinfo;
  }
}

void TaskShard::count_warnings(WarningCounts& counts) const {
  const LogGuard guard;
  const mjWarningStat* warnings = mjb_warning(batch_.get());
  for (std::size_t kind = 0; kind < mjNWARNING; ++kind) {
    std::int64_t number = retired_[kind];
    int info = last_info_[kind];
    for (int row = 0; row < size_; ++row) {
      const mjWarningStat& warning = warnings[static_cast<std::size_t>(row) * mjNWARNING + kind];
      number += warning.number;
      if (warning.number) info = warning.lastinfo;
    }
    if (number == 0) continue;
    counts.emplace_back(mju_warningText(static_cast<int>(kind), static_cast<std::size_t>(info)),
                        number);
  }
}

}  // namespace canter::mujoco
