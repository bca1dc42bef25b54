#pragma once
// Report: what one iteration of training did.

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>

namespace canter {

/// What one iteration did. Losses are means over the update; on many ranks, over all of them.
struct Report {
  std::int64_t iteration = 0;  ///< iterations of the run, this one included
  std::int64_t env_steps = 0;  ///< environment steps of the run, all ranks
  std::int64_t episodes = 0;   ///< episodes of the run that have ended
  /// of the last 100 episodes (fewer at first); NaN before the first
  double episode_return_mean = 0;
  double episode_return_std = 0;   ///< population standard deviation of the same
  double episode_length_mean = 0;  ///< [steps]
  double steps_per_second = 0;     ///< of this iteration
  double policy_loss = 0, value_loss = 0, entropy = 0, approx_kl = 0, clip_fraction = 0;
  double explained_variance = 0, gradient_norm = 0, learning_rate = 0;
  double std = 0;             ///< mean standard deviation of the action distribution; 0 if discrete
  std::int64_t diverged = 0;  ///< environments whose physics blew up, total of the run
  std::int64_t skipped_updates = 0;  ///< minibatches skipped as not finite, total of the run
  /// [s] of this iteration
  double time_physics = 0, time_inference = 0, time_update = 0, time_other = 0;
  double seconds = 0;  ///< [s] of training of the whole run, over all its processes
  /// a skipped update or a failed save in words, else ""; not in metrics.jsonl
  std::string warning{};
};

/// Lists the numbers of a report; names and order are those of metrics.jsonl.
template <class Visitor>
void visit(Report& r, Visitor&& v) {
  v("iteration", r.iteration);
  v("env_steps", r.env_steps);
  v("episodes", r.episodes);
  v("episode_return_mean", r.episode_return_mean);
  v("episode_return_std", r.episode_return_std);
  v("episode_length_mean", r.episode_length_mean);
  v("steps_per_second", r.steps_per_second);
  v("policy_loss", r.policy_loss);
  v("value_loss", r.value_loss);
  v("entropy", r.entropy);
  v("approx_kl", r.approx_kl);
  v("clip_fraction", r.clip_fraction);
  v("explained_variance", r.explained_variance);
  v("gradient_norm", r.gradient_norm);
  v("learning_rate", r.learning_rate);
  v("std", r.std);
  v("diverged", r.diverged);
  v("skipped_updates", r.skipped_updates);
  v("time_physics", r.time_physics);
  v("time_inference", r.time_inference);
  v("time_update", r.time_update);
  v("time_other", r.time_other);
  v("seconds", r.seconds);
}

/// One line for people.
std::ostream& operator<<(std::ostream& out, const Report& report);

/// One JSON object with the keys of metrics.jsonl; numbers that are not finite become null.
std::string to_json(const Report& report);

/// The same into memory of the caller, without allocating. @returns the characters written; 0 if
/// `out` is too small (2048 is enough).
std::size_t write_json(const Report& report, std::span<char> out) noexcept;

}  // namespace canter
