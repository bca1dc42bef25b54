#include "canter/base/options.hpp"

#include <doctest/doctest.h>

using namespace canter;

namespace {

enum class Colour { red, green };
constexpr std::array<std::string_view, 2> enum_names(Colour) {
  return {"red", "green"};
}

struct PaintOptions {
  bool glossy = false;
  int coats = 2;
  std::uint64_t seed = 0;
  float thickness = 0.1f;
  std::string brand = "none";
  std::vector<int> layers{64, 64};
  Colour colour = Colour::red;
};

template <class Visitor>
void visit(PaintOptions& o, Visitor&& v) {
  v("glossy", o.glossy);
  v("coats", o.coats);
  v("seed", o.seed);
  v("thickness", o.thickness);
  v("brand", o.brand);
  v("layers", o.layers);
  v("colour", o.colour);
}

}  // namespace

TEST_CASE("options are set from text and read back") {
  PaintOptions paint;
  set_option(paint, "glossy", parse_option_value("true"));
  set_option(paint, "coats", parse_option_value("1e3"));
  set_option(paint, "thickness", parse_option_value("3"));
  set_option(paint, "brand", parse_option_value("own"));
  set_option(paint, "layers", parse_option_value("[256, 128,64]"));
  set_option(paint, "colour", parse_option_value("green"));
  CHECK(paint.glossy);
  CHECK(paint.coats == 1000);
  CHECK(paint.thickness == 3.0f);
  CHECK(paint.brand == "own");
  CHECK(paint.layers == std::vector<int>{256, 128, 64});
  CHECK(paint.colour == Colour::green);
  PaintOptions copy;
  for (const auto& [name, value] : option_values(paint)) set_option(copy, name, value);
  CHECK(option_values(copy) == option_values(paint));
}

TEST_CASE("text of values is TOML and floats keep their short form") {
  CHECK(to_string(detail::get_field(0.1f)) == "0.1");
  CHECK(to_string(OptionValue(3e-4)) == "3e-04");
  CHECK(to_string(OptionValue(2.0)) == "2.0");
  CHECK(to_string(OptionValue(std::string("a\"b\n"))) == "\"a\\\"b\\u000a\"");
  CHECK(to_string(OptionValue(std::vector<std::int64_t>{1, 2})) == "[1, 2]");
}

TEST_CASE("wrong names and values are refused with the fix") {
  PaintOptions paint;
  CHECK_THROWS_WITH_AS(set_option(paint, "coat", OptionValue(true)),
                       "unknown option \"coat\"; did you mean \"coats\"?", InvalidArgument);
  CHECK_THROWS_WITH_AS(set_option(paint, "colour", OptionValue(std::string("gren"))),
                       "unknown colour \"gren\"; did you mean \"green\"?", InvalidArgument);
  CHECK_THROWS_WITH_AS(set_option(paint, "coats", OptionValue(2.5)),
                       "coats must be an integer, got 2.5", InvalidArgument);
  CHECK_THROWS_AS(set_option(paint, "coats", OptionValue(std::int64_t{1} << 40)), InvalidArgument);
  CHECK_THROWS_AS(set_option(paint, "seed", OptionValue(std::int64_t{-1})), InvalidArgument);
  CHECK_THROWS_AS(set_option(paint, "glossy", OptionValue(std::string("yes"))), InvalidArgument);
}
