// The action space out of a model: ranges of limited actuators, no bounds for the others.

#include "canter/env/mujoco/action_box.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "canter/env/mujoco/model.hpp"

TEST_CASE("bounds come from ctrlrange where the actuator is limited") {
  const auto model = canter::mujoco::parse_model(R"(
    <mujoco>
      <worldbody>
        <body>
          <joint name="a" type="slide"/><joint name="b" axis="0 1 0"/><joint name="c" axis="1 0 0"/>
          <geom size="0.1"/>
        </body>
      </worldbody>
      <actuator>
        <motor joint="a" ctrlrange="-2 1" ctrllimited="true"/>
        <motor joint="b"/>
        <muscle joint="c" ctrlrange="0 1" lengthrange="0 1"/>
        <motor joint="b" ctrlrange="-3 3" ctrllimited="false"/>
      </actuator>
    </mujoco>)");
  const canter::Box box = canter::mujoco::action_box(*model);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  REQUIRE(box.size == 4);
  CHECK(box.lows == std::vector<float>{-2, -infinity, 0, -infinity});
  CHECK(box.highs == std::vector<float>{1, infinity, 1, infinity});
}

TEST_CASE("a model without actuators has an action of no floats") {
  const auto model = canter::mujoco::parse_model("<mujoco/>");
  CHECK(canter::mujoco::action_box(*model).size == 0);
}
