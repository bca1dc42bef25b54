#include "ppo/reward_scaler.hpp"

#include <algorithm>

namespace canter::detail {

void merge_ranks(RunningMoments& moments, RunningMoments& delta, Communicator& communicator,
                 std::vector<double>& gathered) {
  // layout: this rank's numbers, then those of all ranks
  const auto width = static_cast<std::size_t>(1 + 2 * delta.size());
  const auto num_ranks = static_cast<std::size_t>(communicator.size());
  gathered.resize(width * (1 + num_ranks));
  const auto own = std::span(gathered).first(width), all = std::span(gathered).subspan(width);
  delta.pack(own);
  communicator.all_gather(std::as_bytes(own), std::as_writable_bytes(all));
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    delta.unpack(all.subspan(rank * width, width));
    moments.merge(delta);
  }
}

void RewardScaler::scale(const Rollout& rollout, RunningMoments& moments, float gamma, float clip,
                         Communicator& communicator, std::span<float> scaled) {
  const auto num_envs = static_cast<std::size_t>(rollout.num_envs());
  discounted_returns_.resize(num_envs);

  // the discounted return at every step, in the order of the rollout
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    double& discounted_return = discounted_returns_[i % num_envs];
    discounted_return =
        static_cast<double>(gamma) * discounted_return + static_cast<double>(rollout.rewards[i]);
    scaled[i] = static_cast<float>(discounted_return);
    if (rollout.terminated[i] != 0 || rollout.truncated[i] != 0) discounted_return = 0;
  }
  delta_.clear();
  delta_.add(scaled);
  merge_ranks(moments, delta_, communicator, gathered_);

  // only the spread matters: subtracting the mean would change what the task asks for
  float mean = 0, inverse_std = 1;
  moments.normaliser(std::span(&mean, 1), std::span(&inverse_std, 1));
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    const float reward = rollout.rewards[i] * inverse_std;
    scaled[i] = clip > 0 ? std::clamp(reward, -clip, clip) : reward;
  }
}

}  // namespace canter::detail
