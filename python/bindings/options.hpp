#pragma once
// Options structs as Python classes: fields, keywords, repr, equality and pickling all come from
// the struct's one `visit`.

#include <string>

#include "bindings.hpp"
#include "canter/base/options.hpp"

namespace canter::python {

/// A Python value as an option's value; integers of NumPy, paths and sequences included.
/// @throws InvalidArgument naming the option when it can be none.
OptionValue to_option_value(std::string_view name, py::handle value);
/// A seed in [0, 2^63). @throws InvalidArgument for anything else.
std::uint64_t to_seed(py::handle value);
/// An option's value for Python.
py::object to_python(const OptionValue& value);
/// An option's value as Python writes it: True, 0.5, 'tanh', [64, 64].
inline std::string to_repr(const OptionValue& value) {
  return py::repr(to_python(value));
}

/// Sets options by keyword. @throws InvalidArgument for unknown names (nearest match) or types.
template <class Options>
void set_options(Options& options, const py::kwargs& values) {
  for (const auto& [key, value] : values) {
    const auto name = py::cast<std::string>(key);
    set_option(options, name, to_option_value(name, value));
  }
}

namespace detail {

/// The Python annotation of a field: "int", "list[int]", ...
template <class Field>
std::string annotation() {
  if constexpr (std::is_same_v<Field, bool>)
    return "bool";
  else if constexpr (std::is_enum_v<Field>)
    return "str";
  else if constexpr (std::is_integral_v<Field>)
    return "int";
  else if constexpr (std::is_floating_point_v<Field>)
    return "float";
  else if constexpr (std::is_same_v<Field, std::string>)
    return "str";
  else
    return "list[int]";
}

/// "(self: canter._core.X, *, horizon: int = 2048, ...) -> None": what stubs and help() show.
template <class Options>
std::string init_signature(const std::string& self) {
  std::string text = "__init__(self: " + self + ", *";
  Options options{};
  visit(options, [&](std::string_view name, auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    text += ", " + std::string(name) + ": " + annotation<Field>() + " = ";
    text += to_repr(canter::detail::get_field(field));
  });
  return text + ") -> None\n\nSets the given options; the others keep their defaults.";
}

}  // namespace detail

/// Binds an options struct. `doc`: one sentence for the class.
template <class Options>
py::class_<Options> bind_options_struct(py::module_& m, const char* name, const char* doc) {
  // signatures are written here: pybind11 would only know **kwargs and object
  py::options docstrings;
  docstrings.disable_function_signatures();
  const std::string self = "canter._core." + std::string(name);
  py::class_<Options> cls(m, name, doc);
  cls.def(py::init([](const py::kwargs& values) {
            Options options{};
            set_options(options, values);
            return options;
          }),
          detail::init_signature<Options>(self).c_str());

  Options defaults{};
  visit(defaults, [&](std::string_view view, auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    const std::string field_name(view), type = detail::annotation<Field>();
    const auto get = [field_name](Options& options) {
      py::object value;
      visit(options, [&](std::string_view key, auto& member) {
        if (key == field_name) value = to_python(canter::detail::get_field(member));
      });
      return value;
    };
    const auto set = [field_name](Options& options, const py::object& value) {
      set_option(options, field_name, to_option_value(field_name, value));
    };
    const std::string arrow = "(self: " + self + ") -> " + type;
    const std::string into = "(self: " + self + ", value: " + type + ") -> None";
    cls.def_property(field_name.c_str(), py::cpp_function(get, arrow.c_str()),
                     py::cpp_function(set, into.c_str()));
  });

  const auto to_dict = [](const Options& options) {
    py::dict values;
    for (const auto& [key, value] : option_values(options)) values[key.c_str()] = to_python(value);
    return values;
  };
  const std::string class_name(name);
  cls.def("to_dict", to_dict,
          ("to_dict(self: " + self + ") -> dict[str, typing.Any]\n\nAll options by name.").c_str());
  cls.def(
      "__repr__",
      [class_name](const Options& options) {
        std::string text = class_name + '(';
        for (const auto& [key, value] : option_values(options))
          text += (text.back() == '(' ? "" : ", ") + key + '=' + to_repr(value);
        return text + ')';
      },
      ("__repr__(self: " + self + ") -> str").c_str());
  cls.def(
      "__eq__",
      [](const Options& a, const py::object& b) {
        return py::isinstance<Options>(b) &&
               option_values(a) == option_values(py::cast<Options>(b));
      },
      ("__eq__(self: " + self + ", other: object) -> bool").c_str());
  // `__hash__ = None`: equal by value and mutable
  cls.attr("__hash__") = py::none();
  cls.def(py::pickle(to_dict, [](const py::dict& values) {
    Options options{};
    set_options(options, py::kwargs(values));
    return options;
  }));
  return cls;
}

}  // namespace canter::python
