#include <algorithm>

#include "mlp_core.hpp"

namespace canter::detail {
namespace {

void check_size(std::size_t size, std::size_t expected, const char* name) {
  if (size != expected)
    throw InvalidArgument(std::string(name) + " must hold " + std::to_string(expected) +
                          " numbers, got " + std::to_string(size));
}

std::size_t check_observations(std::span<const float> observations, int size) {
  const auto width = static_cast<std::size_t>(size);
  if (observations.size() % width != 0)
    throw InvalidArgument("observations must hold a multiple of " + std::to_string(size) +
                          " numbers, got " + std::to_string(observations.size()));
  return observations.size() / width;
}

}  // namespace

void MlpPolicy::check_masks(std::span<const std::uint8_t> masks, std::size_t rows) const {
  if (masks.empty()) return;
  if (!categorical_) throw InvalidArgument("action_masks are for discrete actions only");
  const auto count = static_cast<std::size_t>(num_outputs());
  check_size(masks.size(), rows * count, "action_masks");
  for (std::size_t i = 0; i < rows; ++i)
    if (std::ranges::all_of(masks.subspan(i * count, count), [](std::uint8_t m) { return m == 0; }))
      throw InvalidArgument("action_masks forbids every action in row " + std::to_string(i));
}

void MlpPolicy::act(const ActInput& input, const ActOutput& output) {
  const std::size_t rows = check_observations(input.observations, spec_.observation_size);
  const std::size_t action_size = static_cast<std::size_t>(spec_.action_size());
  check_size(output.env_actions.size(), rows * action_size, "env_actions");
  if (!output.actions.empty()) check_size(output.actions.size(), rows * action_size, "actions");
  if (!output.log_probs.empty()) check_size(output.log_probs.size(), rows, "log_probs");
  if (!output.values.empty()) check_size(output.values.size(), rows, "values");
  check_masks(input.action_masks, rows);

  refresh_normaliser();
  refresh_log_std();
  pack_all();
  for_each_block(rows, [&](int first, int count) { act_rows(input, output, first, count); });
}

void MlpPolicy::act_rows(const ActInput& input, const ActOutput& output, int first, int rows) {
  const Workspace workspace(*this);
  const MlpNetwork& actor = networks_.front();
  normalise(input.observations, nullptr, first, rows, workspace.data(), actor.input_stride());
  const float* outputs = actor.forward(workspace.data(), rows);
  float* scratch = actor.output_gradient(workspace.data());
  if (gaussian_)
    gaussian_rows(input, output, first, rows, outputs, scratch);
  else
    categorical_rows(input, output, first, rows, outputs, scratch);
  if (output.values.empty()) return;
  // the input of the workspace is still there for the second network
  const MlpNetwork& critic = networks_.back();
  if (num_networks() > 1) outputs = critic.forward(workspace.data(), rows);
  copy_values(outputs, first, rows, output.values);
}

void MlpPolicy::gaussian_rows(const ActInput& input, const ActOutput& output, int first, int rows,
                              const float* outputs, float* scratch) const noexcept {
  const Box& box = std::get<Box>(spec_.action);
  const auto size = static_cast<std::size_t>(box.size), at = static_cast<std::size_t>(first);
  const int stride = networks_.front().output_stride();
  const float* mean = outputs;
  // raw samples are drawn into env_actions and clipped there at the end
  float* const actions = output.env_actions.data() + at * size;
  float* action = actions;
  for (int row = first; row < first + rows; ++row, mean += stride, action += size) {
    Rng rng(input.seed, Stream::action, input.first_id + static_cast<std::uint32_t>(row),
            input.step);
    if (input.deterministic)
      gaussian_->mode(mean, action);
    else
      gaussian_->sample(mean, rng, action);
  }
  if (!output.log_probs.empty())
    gaussian_->log_probs(outputs, stride, actions, nullptr, 0, rows, scratch,
                         output.log_probs.data() + at);
  const std::size_t count = static_cast<std::size_t>(rows) * size;
  if (!output.actions.empty()) std::copy_n(actions, count, output.actions.data() + at * size);
  for (std::size_t i = 0; i < count; ++i) {
    const int entry = static_cast<int>(i % size);
    actions[i] = std::clamp(actions[i], box.low_of(entry), box.high_of(entry));
  }
}

void MlpPolicy::categorical_rows(const ActInput& input, const ActOutput& output, int first,
                                 int rows, const float* outputs, float* scratch) const noexcept {
  const auto count = static_cast<std::size_t>(num_outputs());
  for (int row = first; row < first + rows; ++row, outputs += networks_.front().output_stride()) {
    const auto at = static_cast<std::size_t>(row);
    const std::uint8_t* mask =
        input.action_masks.empty() ? nullptr : input.action_masks.data() + at * count;
    float* action = output.env_actions.data() + at;
    Rng rng(input.seed, Stream::action, input.first_id + static_cast<std::uint32_t>(at),
            input.step);
    if (input.deterministic)
      categorical_->mode(outputs, mask, action);
    else
      categorical_->sample(outputs, mask, rng, scratch, action);
    if (!output.log_probs.empty())
      output.log_probs[at] = categorical_->log_prob(outputs, mask, action, scratch);
    if (!output.actions.empty()) output.actions[at] = *action;
  }
}

void MlpPolicy::copy_values(const float* outputs, int first, int rows,
                            std::span<float> values) const noexcept {
  const MlpNetwork& critic = networks_.back();
  const float* value = outputs + critic.outputs() - 1;
  for (int row = first; row < first + rows; ++row, value += critic.output_stride())
    values[static_cast<std::size_t>(row)] = *value;
}

void MlpPolicy::value(std::span<const float> observations, std::span<float> values) {
  const std::size_t rows = check_observations(observations, spec_.observation_size);
  check_size(values.size(), rows, "values");
  refresh_normaliser();
  pack_all();
  const MlpNetwork& critic = networks_.back();
  for_each_block(rows, [&](int first, int count) {
    const Workspace workspace(*this);
    normalise(observations, nullptr, first, count, workspace.data(), critic.input_stride());
    copy_values(critic.forward(workspace.data(), count), first, count, values);
  });
}

}  // namespace canter::detail
