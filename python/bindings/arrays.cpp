#include "arrays.hpp"

#include <algorithm>

#include "canter/base/error.hpp"

namespace canter::python {
namespace {

[[noreturn]] void refuse(std::string_view name, const std::string& expected,
                         const std::string& got) {
  throw InvalidArgument(std::string(name) + " must be " + expected + ", got " + got);
}

// the array, when its kind is one of `kinds` and its shape the given one
py::array checked(py::handle value, const Shape& shape, std::string_view name,
                  std::string_view kinds, std::string_view dtype) {
  py::array array = to_array(value, name);
  const bool fits = kinds.find(array.dtype().kind()) != std::string_view::npos &&
                    array.ndim() == static_cast<py::ssize_t>(shape.size()) &&
                    std::equal(shape.begin(), shape.end(), array.shape());
  if (!fits) refuse(name, describe(dtype, shape), describe(array));
  return array;
}

template <class Target>
Target converted(const py::array& array, std::string_view name) {
  Target out = Target::ensure(array);
  if (!out) refuse(name, "an array that NumPy can convert", describe(array));
  return out;
}

struct NamedDtype {
  Dtype dtype;
  const char* numpy;
};
constexpr NamedDtype kDtypes[] = {{Dtype::f32, "float32"}, {Dtype::f64, "float64"},
                                  {Dtype::i32, "int32"},   {Dtype::i64, "int64"},
                                  {Dtype::u64, "uint64"},  {Dtype::u8, "uint8"}};

}  // namespace

py::array to_array(py::handle value, std::string_view name) {
  if (py::isinstance<py::array>(value)) return py::reinterpret_borrow<py::array>(value);
  if (value.is_none()) refuse(name, "an array", "None");
  // what NumPy says about ragged lists and strange objects is kept as the reason
  try {
    return py::array(py::module_::import("numpy").attr("asarray")(value));
  } catch (const py::error_already_set& e) {
    if (!e.matches(PyExc_Exception)) throw;
    refuse(
        name, "an array",
        std::string(py::str(py::type::of(value))) + " (" + std::string(py::str(e.value())) + ')');
  }
}

Floats to_floats(py::handle value, const Shape& shape, std::string_view name) {
  return converted<Floats>(checked(value, shape, name, "biuf", "float32"), name);
}

Doubles to_doubles(py::handle value, const Shape& shape, std::string_view name) {
  return converted<Doubles>(checked(value, shape, name, "biuf", "float64"), name);
}

Integers to_integers(py::handle value, const Shape& shape, std::string_view name) {
  return converted<Integers>(checked(value, shape, name, "biu", "int64"), name);
}

Bytes to_flags(py::handle value, const Shape& shape, std::string_view name) {
  return converted<Bytes>(checked(value, shape, name, "b", "bool"), name);
}

std::string describe(std::string_view dtype, const Shape& shape) {
  std::string text = std::string(dtype) + '[';
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ']';
}

std::string describe(const py::array& array) {
  return describe(std::string(py::str(array.dtype())),
                  Shape(array.shape(), array.shape() + array.ndim()));
}

py::dict to_dict(const StateDict& state) {
  py::dict arrays;
  for (const Array& array : state.arrays()) {
    const auto* named = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                     [&](const NamedDtype& d) { return d.dtype == array.dtype; });
    py::array copy(py::dtype(named->numpy), Shape(array.shape.begin(), array.shape.end()));
    if (!array.bytes.empty())
      std::memcpy(copy.mutable_data(), array.bytes.data(), array.bytes.size());
    arrays[array.name.c_str()] = copy;
  }
  return arrays;
}

StateDict to_state(const py::dict& arrays, std::vector<py::array>& keep) {
  StateDict state;
  for (const auto& [key, value] : arrays) {
    const std::string name = py::cast<std::string>(py::str(key));
    py::array array = py::array::ensure(to_array(value, name), py::array::c_style);
    const std::string dtype(py::str(array.dtype()));
    const auto* named = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                     [&](const NamedDtype& d) { return dtype == d.numpy; });
    if (named == std::end(kDtypes))
      refuse(name, "float32, float64, int32, int64, uint64 or uint8", describe(array));
    state.append(Array{
        name,
        named->dtype,
        std::vector<std::int64_t>(array.shape(), array.shape() + array.ndim()),
        {static_cast<const std::byte*>(array.data()), static_cast<std::size_t>(array.nbytes())}});
    keep.push_back(std::move(array));
  }
  return state;
}

}  // namespace canter::python
