#pragma once
// The state of a run as named arrays: what components save into and load from, and what checkpoint
// files hold. Names are paths ("policy/parameters"); those below "env/" have the global environment
// id as their first axis.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace canter {

enum class Dtype : std::uint8_t { f32, f64, i32, i64, u64, u8 };

/// Bytes of one element.
std::size_t size_of(Dtype dtype) noexcept;
/// "F32", "F64", "I32", "I64", "U64", "U8": the names of the safetensors format.
std::string_view name_of(Dtype dtype) noexcept;

template <class T>
constexpr Dtype dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>)
    return Dtype::f32;
  else if constexpr (std::is_same_v<U, double>)
    return Dtype::f64;
  else if constexpr (std::is_same_v<U, std::int32_t>)
    return Dtype::i32;
  else if constexpr (std::is_same_v<U, std::int64_t>)
    return Dtype::i64;
  else if constexpr (std::is_same_v<U, std::uint64_t>)
    return Dtype::u64;
  else {
    static_assert(std::is_same_v<U, std::uint8_t> || std::is_same_v<U, std::byte>);
    return Dtype::u8;
  }
}

/// One named array; `bytes` is a view of row-major data owned by somebody else.
struct Array {
  std::string name;
  Dtype dtype = Dtype::u8;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// An ordered list of named arrays. Copies share nothing and are not needed: move it.
class StateDict {
 public:
  StateDict() = default;
  StateDict(StateDict&&) noexcept = default;
  StateDict& operator=(StateDict&&) noexcept = default;
  StateDict(const StateDict&) = delete;
  StateDict& operator=(const StateDict&) = delete;

  /// Appends a view; the data must stay as they are until this dictionary is gone.
  /// @throws InvalidArgument if the name is taken or the shape does not fit the size.
  template <class T>
  void append(std::string name, std::span<const T> data, std::vector<std::int64_t> shape) {
    append(Array{std::move(name), dtype_of<T>(), std::move(shape), std::as_bytes(data)});
  }
  void append(Array array);

  /// Appends data that this dictionary keeps itself.
  template <class T>
  void append_owned(std::string name, std::span<const T> data, std::vector<std::int64_t> shape) {
    const auto bytes = std::as_bytes(data);
    storage_.emplace_back(bytes.begin(), bytes.end());
    append(Array{std::move(name), dtype_of<T>(), std::move(shape), storage_.back()});
  }

  /// @returns the array, or nullptr.
  const Array* find(std::string_view name) const noexcept;

  /// The data of an array whose dtype and shape must be these.
  /// @throws CheckpointError naming the array, what was expected and what is there.
  template <class T>
  std::vector<T> get(std::string_view name, const std::vector<std::int64_t>& shape) const {
    const Array& array = checked(name, dtype_of<T>(), shape);
    std::vector<T> out(array.bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), array.bytes.data(), array.bytes.size());
    return out;
  }
  /// The checks of `get` alone.
  const Array& checked(std::string_view name, Dtype dtype,
                       const std::vector<std::int64_t>& shape) const;

  const std::vector<Array>& arrays() const noexcept { return arrays_; }
  std::size_t num_bytes() const noexcept;

 private:
  std::vector<Array> arrays_;
  std::deque<std::vector<std::byte>> storage_;  // a deque keeps the views valid as it grows
  std::map<std::string, std::size_t, std::less<>> index_;
};

// A component that has state offers three functions:
//   void save(StateDict&) const;            appends its arrays
//   void validate(const StateDict&) const;  throws CheckpointError if load would; changes nothing
//   void load(const StateDict&);            validates, then applies; on an exception nothing
//   changed

}  // namespace canter
