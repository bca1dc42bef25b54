// The way between Python values and OptionValue; part of both modules.

#include <cstdlib>

#include "options.hpp"

namespace canter::python {
namespace {

std::int64_t to_int64(std::string_view name, py::handle value) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  int overflow = 0;
  const long long number = index ? PyLong_AsLongLongAndOverflow(index.ptr(), &overflow) : -1;
  if (!index || overflow != 0) {
    PyErr_Clear();
    throw InvalidArgument(std::string(name) + " must be an integer in [-2^63, 2^63), got " +
                          std::string(py::repr(value)));
  }
  return number;
}

bool is_float(py::handle value) {
  return PyFloat_Check(value.ptr()) ||
         (py::hasattr(value, "__float__") && !PyIndex_Check(value.ptr()) &&
          !py::isinstance<py::str>(value) && !PySequence_Check(value.ptr()));
}

// a seed that belongs to a call, checked as the options are
struct SeedOption {
  std::uint64_t seed = 0;
};

template <class Visitor>
void visit(SeedOption& o, Visitor&& v) {
  v("seed", o.seed);
}

}  // namespace

std::uint64_t to_seed(py::handle value) {
  SeedOption option;
  set_option(option, "seed", to_option_value("seed", value));
  return option.seed;
}

OptionValue to_option_value(std::string_view name, py::handle value) {
  if (PyBool_Check(value.ptr())) return value.ptr() == Py_True;
  if (py::isinstance<py::str>(value)) return py::cast<std::string>(value);
  // numpy.bool_ has no __index__ and is no bool
  if (std::string_view(Py_TYPE(value.ptr())->tp_name).starts_with("numpy.bool"))
    return PyObject_IsTrue(value.ptr()) == 1;
  if (PyIndex_Check(value.ptr()) && !PySequence_Check(value.ptr())) return to_int64(name, value);
  if (is_float(value))
    return py::cast<double>(py::float_(py::reinterpret_borrow<py::object>(value)));
  if (py::hasattr(value, "__fspath__")) return py::cast<std::string>(value.attr("__fspath__")());
  if (PySequence_Check(value.ptr())) {
    std::vector<std::int64_t> list;
    for (const auto& item : py::reinterpret_borrow<py::sequence>(value))
      list.push_back(to_int64(name, item));
    return list;
  }
  throw InvalidArgument(std::string(name) +
                        " must be a bool, a number, text, a path or a list of integers, got " +
                        std::string(py::repr(value)));
}

py::object to_python(const OptionValue& value) {
  struct Converter {
    py::object operator()(bool b) const { return py::bool_(b); }
    py::object operator()(std::int64_t i) const { return py::int_(i); }
    // through the shortest text: an option that is a float reads 0.0003, not 0.00030000001425
    py::object operator()(double d) const {
      return py::float_(std::strtod(to_string(OptionValue(d)).c_str(), nullptr));
    }
    py::object operator()(const std::string& s) const { return py::str(s); }
    py::object operator()(const std::vector<std::int64_t>& list) const { return py::cast(list); }
  };
  return std::visit(Converter{}, value);
}

}  // namespace canter::python
