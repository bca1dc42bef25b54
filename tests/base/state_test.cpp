#include "canter/base/state.hpp"

#include <doctest/doctest.h>

#include "canter/base/error.hpp"

using namespace canter;

TEST_CASE("arrays are found by name with their bytes") {
  const std::vector<float> floats{1, 2, 3, 4, 5, 6};
  StateDict state;
  state.append("a", std::span<const float>(floats), {2, 3});
  state.append_owned("b", std::span<const std::int32_t>(std::vector<std::int32_t>{7}), {1});
  for (int i = 0; i < 100; ++i)
    state.append_owned("x" + std::to_string(i),
                       std::span<const double>(std::vector<double>{1.0 * i}), {1});
  const StateDict moved = std::move(state);
  CHECK(moved.get<float>("a", {2, 3}) == floats);
  CHECK(moved.get<std::int32_t>("b", {1}) == std::vector<std::int32_t>{7});
  CHECK(moved.get<double>("x42", {1}) == std::vector<double>{42.0});
  CHECK(moved.num_bytes() == 24 + 4 + 800);
  CHECK(moved.find("c") == nullptr);
}

TEST_CASE("what does not fit is refused by name") {
  const std::vector<float> floats{1, 2};
  StateDict state;
  state.append("a", std::span<const float>(floats), {2});
  CHECK_THROWS_AS(state.append("a", std::span<const float>(floats), {2}), InvalidArgument);
  CHECK_THROWS_AS(state.append("b", std::span<const float>(floats), {3}), InvalidArgument);
  CHECK_THROWS_AS(state.append("b", std::span<const float>(floats), {-2, -1}), InvalidArgument);
  CHECK_THROWS_WITH_AS(state.get<float>("a", {3}), "array \"a\" is F32[2], expected F32[3]",
                       CheckpointError);
  CHECK_THROWS_WITH_AS(state.get<double>("a", {2}), "array \"a\" is F32[2], expected F64[2]",
                       CheckpointError);
  CHECK_THROWS_WITH_AS(state.get<float>("z", {1}), "array \"z\" is missing; expected F32[1]",
                       CheckpointError);
}
