#pragma once
// What an environment's or a task's `state` hook is called with: visitors that list, save and load
// its data members.
//
//   template <class Visitor> void state(Visitor& v) { v("goal", goal_); v("phase", phase_); }
//
// A field is a bool, a number of 32 or 64 bits, an enum of such a size, or a std::array or
// std::vector of those. A vector has the same length in every environment and at every time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "canter/env/shard.hpp"

namespace canter::detail {

template <class T>
constexpr Dtype field_dtype() {
  if constexpr (std::is_enum_v<T>)
    return field_dtype<std::underlying_type_t<T>>();
  else if constexpr (std::is_same_v<T, bool>)
    return Dtype::u8;
  else if constexpr (std::is_floating_point_v<T>)
    return dtype_of<T>();
  else {
    static_assert(std::is_integral_v<T>, "state: a field is a bool, a number, or an array of them");
    if constexpr (sizeof(T) == 1)
      return Dtype::u8;
    else if constexpr (sizeof(T) == 4)
      return Dtype::i32;  // unsigned ones keep their bits
    else if constexpr (std::is_signed_v<T>)
      return Dtype::i64;
    else
      return Dtype::u64;
  }
}

template <class T>
std::span<T> field_numbers(T& field) {
  return {&field, 1};
}
template <class T, std::size_t n>
std::span<T> field_numbers(std::array<T, n>& field) {
  return field;
}
template <class T>
std::span<T> field_numbers(std::vector<T>& field) {
  return field;
}

/// Lists the fields of one environment.
class StateLister {
 public:
  template <class T>
  void operator()(std::string_view name, T& field) {
    const auto numbers = field_numbers(field);
    using Number = typename decltype(numbers)::element_type;
    fields_.push_back({"task/" + std::string(name), field_dtype<Number>(),
                       static_cast<std::int64_t>(numbers.size())});
  }
  std::vector<StateField> take() { return std::move(fields_); }

 private:
  std::vector<StateField> fields_;
};

/// @throws InvalidArgument when a field holds `now` bytes in all rows of a shard, but `listed` were
/// expected: a vector whose length is not the same everywhere.
void check_state_size(std::size_t now, std::size_t listed);

/// Copies the fields of environment `row` into the arrays of a shard.
class StateSaver {
 public:
  StateSaver(std::span<const std::span<std::byte>> arrays, int row, int num_rows)
      : arrays_(arrays),
        row_(static_cast<std::size_t>(row)),
        num_rows_(static_cast<std::size_t>(num_rows)) {}

  template <class T>
  void operator()(std::string_view, T& field) {
    const auto bytes = std::as_bytes(field_numbers(field));
    const std::span<std::byte> array = arrays_[next_++];
    check_state_size(bytes.size() * num_rows_, array.size());
    if (!bytes.empty()) std::memcpy(array.data() + row_ * bytes.size(), bytes.data(), bytes.size());
  }

 private:
  std::span<const std::span<std::byte>> arrays_;
  std::size_t row_, num_rows_, next_ = 0;
};

/// Copies the arrays of a shard into the fields of environment `row`.
class StateLoader {
 public:
  StateLoader(std::span<const std::span<const std::byte>> arrays, int row, int num_rows)
      : arrays_(arrays),
        row_(static_cast<std::size_t>(row)),
        num_rows_(static_cast<std::size_t>(num_rows)) {}

  template <class T>
  void operator()(std::string_view, T& field) {
    const auto bytes = std::as_writable_bytes(field_numbers(field));
    const std::span<const std::byte> array = arrays_[next_++];
    check_state_size(bytes.size() * num_rows_, array.size());
    if (!bytes.empty()) std::memcpy(bytes.data(), array.data() + row_ * bytes.size(), bytes.size());
  }

 private:
  std::span<const std::span<const std::byte>> arrays_;
  std::size_t row_, num_rows_, next_ = 0;
};

/// True for types with a `state` hook.
template <class T>
concept HasState = requires(T object, StateLister lister) {
  object.state(lister);
};

/// A readable name of a type.
std::string type_name(const char* mangled);

/// Why objects of this type cannot be saved, or "".
template <class T>
std::string refuses_save(const char* mangled) {
  if (HasState<T> || std::is_empty_v<T>) return "";
  return type_name(mangled) +
         " has data members but no `template <class Visitor> void state(Visitor&)` that lists them";
}

/// The fields of objects of this type, taken from one of them.
template <class T>
std::vector<StateField> state_fields(T& object) {
  StateLister lister;
  if constexpr (HasState<T>) object.state(lister);
  return lister.take();
}

}  // namespace canter::detail
