#include "canter/env/mujoco/model.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "canter/base/error.hpp"
#include "env/models.hpp"

using namespace canter;
using namespace canter::mujoco;

namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

}  // namespace

TEST_CASE("a model comes from a file, from text with assets, or from a live model") {
  const auto folder = std::filesystem::temp_directory_path() / "canter_model_test";
  std::filesystem::create_directories(folder);
  const auto path = folder / "runner.xml";
  std::ofstream(path) << testing::runner_xml();
  const Model from_file = load_model(path);
  CHECK(from_file->nq == 5);
  CHECK(from_file.source().find(path.string()) != std::string::npos);

  const Model from_text = parse_model(
      R"(<mujoco><include file="part.xml"/></mujoco>)",
      {{"part.xml", bytes_of("<mujocoinclude><worldbody><body name=\"b\"><freejoint/>"
                             "<geom size=\".1\"/></body></worldbody></mujocoinclude>")}});
  CHECK(from_text->nq == 7);

  const Model copy = copy_model(*from_file);
  CHECK(copy.get() != from_file.get());
  CHECK(copy->nq == 5);
  // handles share
  const Model handle = copy;
  CHECK(handle.get() == copy.get());

  // a compiled file
  mj_saveModel(from_file.get(), (folder / "runner.mjb").c_str(), nullptr, 0);
  CHECK(load_model(folder / "runner.mjb")->nq == 5);
  std::filesystem::remove_all(folder);
}

TEST_CASE("the engine's automatic reset is off in canter's copy alone") {
  const Model model = parse_model(testing::runner_xml());
  CHECK((model->opt.disableflags & mjDSBL_AUTORESET) != 0);
  mjModel* live = mj_copyModel(nullptr, model.get());
  live->opt.disableflags = 0;
  CHECK((copy_model(*live)->opt.disableflags & mjDSBL_AUTORESET) != 0);
  CHECK(live->opt.disableflags == 0);
  mj_deleteModel(live);
}

TEST_CASE("errors carry MuJoCo's text and what was tried") {
  CHECK_THROWS_WITH_AS(load_model("no/such/robot.xml"), doctest::Contains("no/such/robot.xml"),
                       ModelError);
  CHECK_THROWS_WITH_AS(load_model("no/such/robot.mjb"), doctest::Contains("no/such/robot.mjb"),
                       ModelError);
  CHECK_THROWS_WITH_AS(parse_model("<mujoco><wordbody/></mujoco>"), doctest::Contains("wordbody"),
                       ModelError);
  CHECK_THROWS_WITH_AS(
      parse_model(R"(<mujoco><worldbody><body><joint/></body></worldbody></mujoco>)"),
      doctest::Contains("mass"), ModelError);
  CHECK_THROWS_AS(parse_model(R"(<mujoco><include file="absent.xml"/></mujoco>)"), ModelError);
  CHECK_THROWS_AS(load_model(""), ModelError);
  CHECK_THROWS_AS(Model(nullptr), ModelError);
}

TEST_CASE("objects are found by name or named in the error") {
  const Model model = parse_model(testing::runner_xml());
  CHECK(id_of(*model, mjOBJ_BODY, "beam") == 1);
  CHECK_THROWS_WITH_AS(id_of(*model, mjOBJ_JOINT, "ankle"), "the model has no joint named 'ankle'",
                       ModelError);
}
