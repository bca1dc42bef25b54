#include "canter/report.hpp"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <sstream>

using namespace canter;

TEST_CASE("the keys are those that readers of metrics.jsonl were promised") {
  const std::string expected =
      "{\"iteration\": 3, \"env_steps\": 6144, \"episodes\": 2, \"episode_return_mean\": null, "
      "\"episode_return_std\": 0, \"episode_length_mean\": 0, \"steps_per_second\": 1e+300, "
      "\"policy_loss\": -0.1, \"value_loss\": 0, \"entropy\": 0, \"approx_kl\": 0, "
      "\"clip_fraction\": 0, \"explained_variance\": 0, \"gradient_norm\": null, "
      "\"learning_rate\": 3e-04, \"std\": 0, \"diverged\": 0, \"skipped_updates\": 0, "
      "\"time_physics\": 0, \"time_inference\": 0, \"time_update\": 0, \"time_other\": 0, "
      "\"seconds\": 0}";
  Report report;
  report.iteration = 3;
  report.env_steps = 6144;
  report.episodes = 2;
  report.episode_return_mean = std::numeric_limits<double>::quiet_NaN();
  report.gradient_norm = std::numeric_limits<double>::infinity();
  report.steps_per_second = 1e300;
  report.policy_loss = -0.1;
  report.learning_rate = 3e-4;
  report.warning = "not a key";
  CHECK(to_json(report) == expected);
}

TEST_CASE("too little room writes nothing, the promised room is enough") {
  Report report;
  visit(report, [](std::string_view, auto& value) {
    value = std::numeric_limits<std::remove_reference_t<decltype(value)>>::lowest();
  });
  std::array<char, 2048> room{};
  const std::size_t size = write_json(report, room);
  CHECK(size > 0);
  CHECK(write_json(report, std::span(room).first(size - 1)) == 0);
  CHECK(write_json(report, std::span(room).first(size)) == size);
}

TEST_CASE("a report is one line for people, with its warning") {
  Report report;
  report.env_steps = 2048;
  report.warning = "a save failed";
  std::ostringstream out;
  out << report;
  CHECK(out.str().find("steps 2048") != std::string::npos);
  CHECK(out.str().find("a save failed") != std::string::npos);
  CHECK(out.str().find('\n') == std::string::npos);
}
