#pragma once
// The shard of MuJoCo tasks: one single-threaded mjBatch, driven by whichever thread steps it.

#include <mujoco/mjbatch.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "canter/env/mujoco/model.hpp"
#include "canter/env/mujoco/task.hpp"
#include "canter/env/shard.hpp"

namespace canter::mujoco {

/// Why pools of this model need one mjData per environment and cannot be saved, or "".
std::string bookkeeping_outside_state(const mjModel& model);

class TaskShard final : public Shard {
 public:
  /// @throws ModelError when MuJoCo cannot simulate the model.
  TaskShard(Model model, const Spec& spec, int size, bool persistent,
            std::unique_ptr<detail::TaskList> tasks);

  void step(const ShardRows& rows, Faults& faults) override;
  void reset(std::span<const int> ids, const ShardRows& rows, Faults& faults) override;
  EnvState state(int row) const override;
  void reset_to(int row, std::span<const double> qpos, std::span<const double> qvel,
                const ShardRows& rows, Faults& faults) override;
  std::string refuses_save() const override;
  std::vector<StateField> state_fields() const override;
  void save(std::span<const std::span<std::byte>> fields) const override;
  void load(std::span<const std::span<const std::byte>> fields) override;
  std::string model_hash() const override;
  void count_warnings(WarningCounts& counts) const override;

 private:
  struct Call;
  struct DeleteBatch {
    void operator()(mjBatch* batch) const;
  };

  static void step_row(const mjModel* m, mjData* d, int row, void* argument);
  static void reset_row(const mjModel* m, mjData* d, int row, void* argument);
  bool before_step(Call& call, const mjModel* m, mjData* d, int row);
  void after_step(Call& call, const mjModel* m, mjData* d, int row);
  bool write_start(Call& call, const mjModel* m, mjData* d, int row);
  void after_reset(Call& call, const mjModel* m, mjData* d, int row);
  void apply(const int* ids, int num_ids, mjfBatchFunc function, Call& call);
  void retire_warnings(const mjWarningStat* warnings, std::int64_t sign);

  Model model_;
  std::unique_ptr<mjBatch, DeleteBatch> batch_;
  std::unique_ptr<detail::TaskList> tasks_;
  int size_, frame_skip_, observation_size_, action_size_, num_metrics_;
  bool post_constraint_;
  // warnings of rows whose counters were cleared since, and the last detail of each kind
  std::array<std::int64_t, mjNWARNING> retired_{};
  std::array<int, mjNWARNING> last_info_{};
};

}  // namespace canter::mujoco
