#pragma once
// The checking layer between NumPy and spans: arrays of any stride, order and dtype that casts
// safely come in as C-contiguous ones; everything else is an InvalidArgument that says what was
// expected.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings.hpp"
#include "canter/base/state.hpp"

namespace canter::python {

constexpr int kPlainArray =
    py::array::c_style | py::array::forcecast | py::detail::npy_api::NPY_ARRAY_ALIGNED_;
using Floats = py::array_t<float, kPlainArray>;
using Doubles = py::array_t<double, kPlainArray>;
using Integers = py::array_t<std::int64_t, kPlainArray>;
using Bytes = py::array_t<std::uint8_t, kPlainArray>;
using Shape = std::vector<py::ssize_t>;

/// numpy.asarray; refuses what is no array of numbers.
py::array to_array(py::handle value, std::string_view name);

/// Real numbers of exactly this shape, as float32 (a view where it already fits).
Floats to_floats(py::handle value, const Shape& shape, std::string_view name);
/// Real numbers of exactly this shape, as float64.
Doubles to_doubles(py::handle value, const Shape& shape, std::string_view name);
/// Integers of exactly this shape; floats are refused.
Integers to_integers(py::handle value, const Shape& shape, std::string_view name);
/// Booleans of exactly this shape, as 0/1 bytes.
Bytes to_flags(py::handle value, const Shape& shape, std::string_view name);

/// "float32[64, 6]"
std::string describe(std::string_view dtype, const Shape& shape);
std::string describe(const py::array& array);

template <class T, int Flags>
std::span<const T> const_span(const py::array_t<T, Flags>& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}
template <class T, int Flags>
std::span<T> mutable_span(py::array_t<T, Flags>& array) {
  return {array.mutable_data(), static_cast<std::size_t>(array.size())};
}

/// A new array with a copy of the numbers.
template <class T>
py::array_t<std::remove_const_t<T>> copy_of(std::span<T> data) {
  return py::array_t<std::remove_const_t<T>>(static_cast<py::ssize_t>(data.size()), data.data());
}

/// A state as {name: array}, each a copy.
py::dict to_dict(const StateDict& state);
/// Views of a {name: array} dictionary; `keep` holds the arrays while the state is in use.
StateDict to_state(const py::dict& arrays, std::vector<py::array>& keep);

}  // namespace canter::python
