// The header is one line of JSON:
//   {"__metadata__":{"xxh3":"<32 digits>","format":"canter","version":"1","xxh3/<array>":"..", ..},
//    "<array>":{"dtype":"F32","shape":[..],"data_offsets":[begin,end]}, ..}<spaces>
// Its own checksum stands first, at a fixed place, so that it can be verified before anything is
// parsed; it is that of the length and the header with zeros in place of the digits. The format
// knows no holes, so the bytes between arrays belong to U8 arrays named "__padding__/<n>".

#include "canter/checkpoint/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "canter/base/error.hpp"
#include "checkpoint/checksum.hpp"
#include "checkpoint/durable_file.hpp"
#include "checkpoint/safetensors_image.hpp"

namespace canter {
namespace detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLengthSize = 8;
constexpr std::size_t kMaxHeaderSize = std::size_t{16} << 20;
constexpr std::size_t kMaxDimensions = 8;
constexpr std::string_view kHeaderStart = R"({"__metadata__":{"xxh3":")";
constexpr std::string_view kPadding = "__padding__/";
constexpr std::string_view kVersion = "1";

constexpr std::size_t round_up(std::size_t size, std::size_t unit) {
  return (size + unit - 1) / unit * unit;
}

bool is_reserved_metadata(const std::string& key) {
  return key == "format" || key == "version" || key == "xxh3" || key.starts_with("xxh3/");
}

// length and header with zeros for the digits of the checksum itself
std::string header_checksum(std::span<const std::byte> file, std::size_t header_size) {
  const std::string zeros(kChecksumSize, '0');
  const std::size_t digits = kLengthSize + kHeaderStart.size();
  Checksum sum;
  sum.add(file.first(digits));
  sum.add(zeros);
  sum.add(file.subspan(digits + kChecksumSize, header_size + kLengthSize - digits - kChecksumSize));
  return sum.digits();
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void SafetensorsImage::add_entry(std::string name, Dtype dtype, std::vector<std::int64_t> shape,
                                 std::size_t size) {
  const std::size_t begin = entries_.empty() ? 0 : entries_.back().end;
  entries_.push_back({std::move(name), dtype, std::move(shape), begin, begin + size});
}

void SafetensorsImage::fill(const StateDict& arrays, const Metadata& metadata) {
  for (const auto& [key, value] : metadata)
    if (is_reserved_metadata(key)) throw InvalidArgument("metadata key '" + key + "' is reserved");
  metadata_ = metadata;
  entries_.clear();
  for (const Array& array : arrays.arrays()) {
    if (array.name == "__metadata__" || array.name.starts_with(kPadding))
      throw InvalidArgument("array name '" + array.name + "' is reserved");
    const std::size_t end = entries_.empty() ? 0 : entries_.back().end;
    if (const std::size_t gap = round_up(end, kAlignment) - end; gap > 0)
      add_entry(std::string(kPadding) + std::to_string(entries_.size()), Dtype::u8,
                {static_cast<std::int64_t>(gap)}, gap);
    add_entry(array.name, array.dtype, array.shape, array.bytes.size());
  }
  reserve_header();
  std::size_t i = 0;
  for (const Entry& entry : entries_) {
    std::byte* to = memory_.data() + data_start_ + entry.begin;
    if (entry.name.starts_with(kPadding)) {
      std::memset(to, 0, entry.end - entry.begin);
    } else if (const Array& array = arrays.arrays()[i++]; !array.bytes.empty()) {
      std::memcpy(to, array.bytes.data(), array.bytes.size());
    }
  }
}

// an estimate from above of what JSON will need, made without building it: filling has to be quick
void SafetensorsImage::reserve_header() {
  std::size_t estimate = kLengthSize + 256;
  for (const auto& [key, value] : metadata_) estimate += key.size() + value.size() + 16;
  for (const Entry& e : entries_)
    estimate += 2 * e.name.size() + kChecksumSize + 128 + 20 * e.shape.size();
  data_start_ = round_up(estimate, kPageSize);
  size_ = data_start_ + (entries_.empty() ? 0 : entries_.back().end);
  if (memory_.size() < size_) memory_.resize(size_);
}

std::string SafetensorsImage::header() const {
  const std::string zeros(kChecksumSize, '0');
  Json metadata;
  metadata["xxh3"] = zeros;
  metadata["format"] = "canter";
  metadata["version"] = kVersion;
  for (const auto& [key, value] : metadata_) metadata[key] = value;
  for (const Entry& e : entries_) {
    const auto data = std::span(memory_);
    metadata["xxh3/" + e.name] = checksum(data.subspan(data_start_ + e.begin, e.end - e.begin));
  }
  Json json;
  json["__metadata__"] = std::move(metadata);
  for (const Entry& e : entries_)
    json[e.name] = {{"dtype", std::string(name_of(e.dtype))},
                    {"shape", e.shape},
                    {"data_offsets", {e.begin, e.end}}};
  try {
    return json.dump();
  } catch (const Json::type_error& error) {
    throw InvalidArgument(std::string("names and metadata must be UTF-8: ") + error.what());
  }
}

void SafetensorsImage::seal() {
  const std::string text = header();
  // text full of characters that JSON writes as six: the estimate was short, the data move
  if (const std::size_t start = round_up(kLengthSize + text.size(), kPageSize);
      start > data_start_) {
    const std::size_t size = size_ - data_start_;
    memory_.resize(start + size);
    std::memmove(memory_.data() + start, memory_.data() + data_start_, size);
    data_start_ = start;
    size_ = start + size;
  }
  const std::uint64_t header_size = data_start_ - kLengthSize;
  for (std::size_t i = 0; i < kLengthSize; ++i)
    memory_[i] = static_cast<std::byte>((header_size >> (8 * i)) & 0xff);
  std::memset(memory_.data() + kLengthSize, ' ', header_size);
  std::memcpy(memory_.data() + kLengthSize, text.data(), text.size());
  const std::string digits = header_checksum(memory_, header_size);
  std::memcpy(memory_.data() + kLengthSize + kHeaderStart.size(), digits.data(), digits.size());
}

std::vector<std::byte> SafetensorsImage::take() && {
  memory_.resize(size_);
  return std::move(memory_);
}

namespace {

// reads one file's bytes; every complaint names the file
class Parser {
 public:
  Parser(std::span<const std::byte> file, const std::string& name) : file_(file), name_(name) {}

  void parse(StateDict& arrays, Metadata& metadata) {
    const Json json = header();
    for (const auto& [key, value] : json.at("__metadata__").items()) {
      if (!value.is_string()) fail("metadata '" + key + "' is not text");
      metadata[key] = value.get<std::string>();
    }
    if (metadata["format"] != "canter" || metadata["version"] != kVersion)
      fail("format '" + metadata["format"] + "' version '" + metadata["version"] +
           "', expected 'canter' version '" + std::string(kVersion) + "'");
    std::size_t end = 0;
    for (const auto& [key, value] : json.items())
      if (key != "__metadata__") end = add_array(key, value, end, arrays, metadata);
    if (end != data_.size()) fail("has " + std::to_string(data_.size() - end) + " bytes too many");
    std::erase_if(metadata, [](const auto& item) { return item.first.starts_with("xxh3"); });
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw CheckpointError("'" + name_ + "': " + reason);
  }

  // verifies length and checksum of the header, and only then parses it
  Json header() {
    const std::size_t fixed = kLengthSize + kHeaderStart.size() + kChecksumSize;
    if (file_.size() < fixed) fail("too short: " + std::to_string(file_.size()) + " bytes");
    std::uint64_t size = 0;
    for (std::size_t i = 0; i < kLengthSize; ++i)
      size |= std::to_integer<std::uint64_t>(file_[i]) << (8 * i);
    if (size < fixed - kLengthSize || size > kMaxHeaderSize || size > file_.size() - kLengthSize)
      fail("header of " + std::to_string(size) + " bytes in a file of " +
           std::to_string(file_.size()) + " is not possible: truncated or damaged");
    const std::string_view text = as_text(file_.subspan(kLengthSize, size));
    if (!text.starts_with(kHeaderStart))
      fail("not written by canter (no checksum of the header), or damaged");
    if (header_checksum(file_, size) != text.substr(kHeaderStart.size(), kChecksumSize))
      fail("checksum of the header differs: damaged");
    data_ = file_.subspan(kLengthSize + size);
    return parse_json(text);
  }

  Json parse_json(std::string_view text) const {
    std::set<std::string> names;
    const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
      if (depth > 3) fail("header is nested too deeply");
      if (depth == 1 && event == Json::parse_event_t::key &&
          !names.insert(value.get<std::string>()).second)
        fail("array '" + value.get<std::string>() + "' is there twice");
      return true;
    };
    try {
      Json json = Json::parse(text, check);
      if (!json.is_object() || !json.at("__metadata__").is_object()) fail("header is no object");
      return json;
    } catch (const Json::exception& error) {
      fail(std::string("header is not the JSON of the format: ") + error.what());
    }
  }

  std::size_t add_array(const std::string& key, const Json& value, std::size_t begin,
                        StateDict& arrays, const Metadata& metadata) const {
    try {
      const Dtype dtype = dtype_named(key, value.at("dtype").get<std::string>());
      const auto shape = value.at("shape").get<std::vector<std::int64_t>>();
      const auto offsets = value.at("data_offsets").get<std::vector<std::uint64_t>>();
      if (offsets.size() != 2 || offsets[0] != begin || offsets[1] < begin ||
          offsets[1] > data_.size())
        fail("array '" + key + "' lies outside of the file or leaves a hole");
      const std::size_t size = offsets[1] - begin;
      if (num_bytes(key, dtype, shape) != size)
        fail("array '" + key + "' has another size than its shape says");
      const auto bytes = data_.subspan(begin, size);
      const auto expected = metadata.find("xxh3/" + key);
      if (expected == metadata.end() || expected->second != checksum(bytes))
        fail("checksum of array '" + key + "' differs: damaged");
      if (!key.starts_with(kPadding)) arrays.append(Array{key, dtype, shape, bytes});
      return offsets[1];
    } catch (const Json::exception& error) {
      fail("entry of array '" + key + "' is not that of the format: " + error.what());
    }
  }

  Dtype dtype_named(const std::string& key, const std::string& text) const {
    for (const Dtype d : {Dtype::f32, Dtype::f64, Dtype::i32, Dtype::i64, Dtype::u64, Dtype::u8})
      if (name_of(d) == text) return d;
    fail("array '" + key + "' has the unknown type '" + text + "'");
  }

  std::size_t num_bytes(const std::string& key, Dtype dtype,
                        const std::vector<std::int64_t>& shape) const {
    if (shape.size() > kMaxDimensions) fail("array '" + key + "' has too many axes");
    std::size_t size = size_of(dtype);
    for (const std::int64_t n : shape) {
      if (n < 0) fail("array '" + key + "' has a negative axis");
      const auto count = static_cast<std::size_t>(n);
      if (count > 0 && size > std::numeric_limits<std::size_t>::max() / count)
        fail("array '" + key + "' is too large");
      size *= count;
    }
    return size;
  }

  std::span<const std::byte> file_, data_;
  const std::string& name_;
};

}  // namespace
}  // namespace detail

std::vector<std::byte> to_safetensors(const StateDict& arrays, const Metadata& metadata) {
  detail::SafetensorsImage image;
  image.fill(arrays, metadata);
  image.seal();
  return std::move(image).take();
}

SafetensorsFile parse_safetensors(std::vector<std::byte> bytes, const std::string& name) {
  SafetensorsFile file;
  file.bytes = std::move(bytes);
  detail::Parser(file.bytes, name).parse(file.arrays, file.metadata);
  return file;
}

void write_safetensors(const std::filesystem::path& path, const StateDict& arrays,
                       const Metadata& metadata) {
  detail::write_durably(path, to_safetensors(arrays, metadata));
}

SafetensorsFile read_safetensors(const std::filesystem::path& path) {
  auto bytes = detail::read_file(path, std::numeric_limits<std::uintmax_t>::max());
  if (!bytes) throw CheckpointError("'" + path.string() + "': no such file");
  return parse_safetensors(std::move(*bytes), path.string());
}

}  // namespace canter
