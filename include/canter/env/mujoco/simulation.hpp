#pragma once
// Simulation: what a task's hooks see of MuJoCo. A light view; it owns nothing.

#include <mujoco/mujoco.h>

#include <cstddef>
#include <span>

#include "canter/base/error.hpp"
#include "canter/base/rng.hpp"

namespace canter::mujoco {

/// One environment's simulation during a hook; do not keep it. Spans of a const Simulation are
/// read-only. Several environments share one mjData, and only the state is exchanged between them:
/// what MuJoCo derives (xpos, sensordata, contacts, cfrc_ext, ...) is this environment's own in
/// after_reset, after_step, measure and observe, but somebody else's in reset and before_step until
/// forward() or kinematics() was called. As after mj_step, positions of bodies describe the start
/// of the last physics step. Hooks that call MuJoCo's own functions must not have owning objects
/// (std::vector, std::string) alive across them: MuJoCo leaves a fatal error by longjmp.
class Simulation {
 public:
  Simulation(const mjModel& model, mjData& data, Rng& rng) noexcept
      : model_(&model), data_(&data), rng_(&rng) {}

  const mjModel& model() const noexcept { return *model_; }
  mjData& data() noexcept { return *data_; }
  const mjData& data() const noexcept { return *data_; }
  /// The environment's own random numbers: the same for any number of threads and environments.
  Rng& rng() const noexcept { return *rng_; }
  /// Simulated time [s].
  double time() const noexcept { return data_->time; }

  // state and inputs: double[...]
  std::span<double> qpos() noexcept { return view(data_->qpos, model_->nq); }  ///< [nq]
  std::span<double> qvel() noexcept { return view(data_->qvel, model_->nv); }  ///< [nv]
  std::span<double> act() noexcept { return view(data_->act, model_->na); }    ///< [na]
  std::span<double> ctrl() noexcept { return view(data_->ctrl, model_->nu); }  ///< [nu]
  std::span<double> qfrc_applied() noexcept { return view(data_->qfrc_applied, model_->nv); }
  std::span<double> xfrc_applied() noexcept { return view(data_->xfrc_applied, 6 * model_->nbody); }
  std::span<double> mocap_pos() noexcept { return view(data_->mocap_pos, 3 * model_->nmocap); }
  std::span<double> mocap_quat() noexcept { return view(data_->mocap_quat, 4 * model_->nmocap); }
  std::span<double> userdata() noexcept { return view(data_->userdata, model_->nuserdata); }

  std::span<const double> qpos() const noexcept { return view(data_->qpos, model_->nq); }
  std::span<const double> qvel() const noexcept { return view(data_->qvel, model_->nv); }
  std::span<const double> act() const noexcept { return view(data_->act, model_->na); }
  std::span<const double> ctrl() const noexcept { return view(data_->ctrl, model_->nu); }
  std::span<const double> userdata() const noexcept {
    return view(data_->userdata, model_->nuserdata);
  }

  // derived numbers: double[...]; see above for when they are this environment's own
  std::span<const double> qacc() const noexcept { return view(data_->qacc, model_->nv); }
  std::span<const double> sensordata() const noexcept {
    return view(data_->sensordata, model_->nsensordata);
  }
  std::span<const double> xpos(int body) const noexcept {
    return view(data_->xpos + 3 * body, 3);
  }  ///< [m]
  std::span<const double> xquat(int body) const noexcept {
    return view(data_->xquat + 4 * body, 4);
  }
  std::span<const double> site_xpos(int site) const noexcept {
    return view(data_->site_xpos + 3 * site, 3);
  }  ///< [m]
  /// Contact forces on the bodies [nbody, 6]; needs Spec.post_constraint.
  std::span<const double> cfrc_ext() const noexcept {
    return view(data_->cfrc_ext, 6 * model_->nbody);
  }

  /// mj_forward. @throws Error with MuJoCo's text if it raises a fatal error.
  void forward();
  /// mj_kinematics and mj_comPos: positions and orientations out of qpos. @throws Error likewise.
  void kinematics();

  /// Writes the numbers of all sources one after the other into `out`, as float32.
  /// @throws InvalidArgument if they do not fill it exactly.
  template <class... Sources>
  static void copy_to(std::span<float> out, const Sources&... sources) {
    const std::size_t total = (std::size_t{0} + ... + std::span<const double>(sources).size());
    if (total != out.size()) throw_size(total, out.size());
    float* next = out.data();
    ((next = convert(next, std::span<const double>(sources))), ...);
  }

 private:
  template <class Size>
  static std::span<double> view(double* first, Size size) noexcept {
    return {first, static_cast<std::size_t>(size)};
  }
  static float* convert(float* out, std::span<const double> source) noexcept {
    for (const double x : source) *out++ = static_cast<float>(x);
    return out;
  }
  [[noreturn]] static void throw_size(std::size_t got, std::size_t expected);

  const mjModel* model_;
  mjData* data_;
  Rng* rng_;
};

}  // namespace canter::mujoco
