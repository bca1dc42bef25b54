#include "canter/base/state.hpp"

#include <array>

#include "canter/base/error.hpp"

namespace canter {
namespace {

struct DtypeFacts {
  std::size_t size;
  std::string_view name;
};
constexpr std::array<DtypeFacts, 6> kDtypes{
    {{4, "F32"}, {8, "F64"}, {4, "I32"}, {8, "I64"}, {8, "U64"}, {1, "U8"}}};

std::string describe(Dtype dtype, const std::vector<std::int64_t>& shape) {
  std::string text(name_of(dtype));
  text += '[';
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ']';
}

std::size_t num_elements(const std::vector<std::int64_t>& shape) {
  std::size_t count = 1;
  for (std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

}  // namespace

std::size_t size_of(Dtype dtype) noexcept {
  return kDtypes[static_cast<std::size_t>(dtype)].size;
}

std::string_view name_of(Dtype dtype) noexcept {
  return kDtypes[static_cast<std::size_t>(dtype)].name;
}

void StateDict::append(Array array) {
  for (std::int64_t size : array.shape)
    if (size < 0)
      throw InvalidArgument("array \"" + array.name + "\" has a negative size in its shape " +
                            describe(array.dtype, array.shape));
  if (num_elements(array.shape) * size_of(array.dtype) != array.bytes.size())
    throw InvalidArgument("array \"" + array.name + "\" holds " +
                          std::to_string(array.bytes.size()) + " bytes, which is not " +
                          describe(array.dtype, array.shape));
  if (!index_.emplace(array.name, arrays_.size()).second)
    throw InvalidArgument("array \"" + array.name + "\" is in the state twice");
  arrays_.push_back(std::move(array));
}

const Array* StateDict::find(std::string_view name) const noexcept {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &arrays_[found->second];
}

const Array& StateDict::checked(std::string_view name, Dtype dtype,
                                const std::vector<std::int64_t>& shape) const {
  const Array* array = find(name);
  if (!array)
    throw CheckpointError("array \"" + std::string(name) + "\" is missing; expected " +
                          describe(dtype, shape));
  if (array->dtype != dtype || array->shape != shape)
    throw CheckpointError("array \"" + std::string(name) + "\" is " +
                          describe(array->dtype, array->shape) + ", expected " +
                          describe(dtype, shape));
  return *array;
}

std::size_t StateDict::num_bytes() const noexcept {
  std::size_t sum = 0;
  for (const Array& array : arrays_) sum += array.bytes.size();
  return sum;
}

}  // namespace canter
