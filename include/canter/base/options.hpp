#pragma once
// Options structs, written once. Each struct is a plain aggregate with defaults; beside it stands
// one function
//     template <class Visitor> void visit(PpoOptions& options, Visitor&& visitor) {
//       visitor("horizon", options.horizon);  ...
//     }
// that lists its fields. Python keywords, config.toml, the command line and checkpoints all go
// through it. A field is bool, an integer, a floating-point number, std::string, std::vector of
// int, or an enum with `constexpr auto enum_names(Enum) -> std::array<std::string_view, N>` found
// by ADL (enumerators 0..N-1).

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "canter/base/error.hpp"

namespace canter {

/// The value of an option outside of its struct.
using OptionValue =
    std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

/// Names and values, in the order of the struct.
using OptionValues = std::vector<std::pair<std::string, OptionValue>>;

/// The candidate closest to `name` by edit distance, or "" if none is near.
std::string nearest_match(std::string_view name, const std::vector<std::string>& candidates);

/// "unknown <kind> 'x'; did you mean 'y'?" or a list of all when nothing is near.
/// @throws InvalidArgument always.
[[noreturn]] void throw_unknown(std::string_view kind, std::string_view name,
                                const std::vector<std::string>& candidates);

/// "0.5", "[64, 64]", "\"elu\"": as TOML writes it; floats round-trip.
std::string to_string(const OptionValue& value);

/// Parses text from a command line into whichever alternative it reads as: true, 3, 3e-4,
/// [64,64] or 64,64, else a string.
OptionValue parse_option_value(std::string_view text);

namespace detail {
[[noreturn]] void throw_option_type(std::string_view name, const OptionValue& value,
                                    std::string_view expected);
std::int64_t to_integer(std::string_view name, const OptionValue& value, std::int64_t low,
                        std::uint64_t high);
double to_double(std::string_view name, const OptionValue& value);

template <class Field>
OptionValue get_field(const Field& field) {
  if constexpr (std::is_same_v<Field, bool>)
    return field;
  else if constexpr (std::is_enum_v<Field>)
    return std::string(enum_names(Field{})[static_cast<std::size_t>(field)]);
  else if constexpr (std::is_integral_v<Field>)
    return static_cast<std::int64_t>(field);
  else if constexpr (std::is_floating_point_v<Field>)
    return static_cast<double>(field);
  else if constexpr (std::is_same_v<Field, std::string>)
    return field;
  else
    return std::vector<std::int64_t>(field.begin(), field.end());
}

template <class Field>
void set_field(std::string_view name, Field& field, const OptionValue& value) {
  if constexpr (std::is_same_v<Field, bool>) {
    const bool* b = std::get_if<bool>(&value);
    if (!b) throw_option_type(name, value, "true or false");
    field = *b;
  } else if constexpr (std::is_enum_v<Field>) {
    constexpr auto names = enum_names(Field{});
    const std::string* text = std::get_if<std::string>(&value);
    const std::vector<std::string> all(names.begin(), names.end());
    if (!text) throw_option_type(name, value, "a name, for example \"" + all[0] + '"');
    for (std::size_t i = 0; i < names.size(); ++i)
      if (*text == names[i]) {
        field = static_cast<Field>(i);
        return;
      }
    throw_unknown(name, *text, all);
  } else if constexpr (std::is_integral_v<Field>) {
    using Limits = std::numeric_limits<Field>;
    field = static_cast<Field>(to_integer(name, value, static_cast<std::int64_t>(Limits::min()),
                                          static_cast<std::uint64_t>(Limits::max())));
  } else if constexpr (std::is_floating_point_v<Field>) {
    field = static_cast<Field>(to_double(name, value));
  } else if constexpr (std::is_same_v<Field, std::string>) {
    const std::string* text = std::get_if<std::string>(&value);
    if (!text) throw_option_type(name, value, "text");
    field = *text;
  } else {
    const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
    if (!list) throw_option_type(name, value, "a list of integers");
    Field out;
    for (std::int64_t x : *list) {
      typename Field::value_type item{};
      set_field(name, item, OptionValue(x));
      out.push_back(item);
    }
    field = std::move(out);
  }
}
}  // namespace detail

/// All names of a struct's options, in order.
template <class Options>
std::vector<std::string> option_names() {
  Options options{};
  std::vector<std::string> names;
  visit(options, [&](std::string_view name, auto&) { names.emplace_back(name); });
  return names;
}

/// All options with their values, in order.
template <class Options>
OptionValues option_values(Options options) {
  OptionValues values;
  visit(options, [&](std::string_view name, auto& field) {
    values.emplace_back(std::string(name), detail::get_field(field));
  });
  return values;
}

/// Sets one option by name.
/// @throws InvalidArgument for an unknown name (with the nearest match) or a value of another type.
template <class Options>
void set_option(Options& options, std::string_view name, const OptionValue& value) {
  bool found = false;
  visit(options, [&](std::string_view field_name, auto& field) {
    if (field_name != name) return;
    detail::set_field(name, field, value);
    found = true;
  });
  if (!found) throw_unknown("option", name, option_names<Options>());
}

}  // namespace canter
