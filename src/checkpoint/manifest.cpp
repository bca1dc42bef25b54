#include "checkpoint/manifest.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/checksum.hpp"

namespace canter::detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::string_view kFormat = "canter-checkpoint";
constexpr std::string_view kStart = "{\n \"xxh3\": \"";

// the checksum of a manifest is that of its text with zeros in place of the digits
std::string own_checksum(std::string text) {
  text.replace(kStart.size(), kChecksumSize, kChecksumSize, '0');
  return checksum(text);
}

Json to_json(const Manifest& manifest) {
  const CheckpointInfo& info = manifest.info;
  Json json;
  json["xxh3"] = std::string(kChecksumSize, '0');
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["step"] = manifest.step;
  json["world_size"] = info.world_size;
  json["files"] = Json::array();
  for (const ManifestFile& file : manifest.files)
    json["files"].push_back({{"name", file.name},
                             {"size", file.size},
                             {"xxh3", file.checksum},
                             {"env_range", {info.env_first, info.env_first + info.env_count}}});
  json["components"] = Json::object();
  for (const auto& [name, version] : info.components)
    json["components"][name] = {{"version", version}, {"required", true}};
  json["provenance"] = info.provenance;
  json["metrics"] = Json::object();
  for (const auto& [name, value] : info.metrics) json["metrics"][name] = value;
  return json;
}

ManifestFile parse_file(const Json& json) {
  ManifestFile file;
  file.name = json.at("name").get<std::string>();
  file.size = json.at("size").get<std::uintmax_t>();
  file.checksum = json.at("xxh3").get<std::string>();
  // a name, never a path out of the checkpoint's folder
  if (file.name.empty() || file.name.find('/') != std::string::npos || file.name.front() == '.')
    throw CheckpointError("manifest lists the file '" + file.name + "': not a plain name");
  return file;
}

Manifest parse_json(const Json& json) {
  Manifest manifest;
  CheckpointInfo& info = manifest.info;
  manifest.step = json.at("step").get<std::int64_t>();
  info.world_size = json.at("world_size").get<int>();
  for (const Json& file : json.at("files")) manifest.files.push_back(parse_file(file));
  if (manifest.files.size() != 1)
    throw NewerFormat("has " + std::to_string(manifest.files.size()) +
                      " shards; this version of canter reads checkpoints of one");
  const auto range = json.at("files").at(0).at("env_range").get<std::vector<std::int64_t>>();
  if (range.size() != 2) throw CheckpointError("manifest has a bad env_range");
  info.env_first = range[0];
  info.env_count = range[1] - range[0];
  for (const auto& [name, component] : json.at("components").items())
    info.components[name] = component.at("version").get<int>();
  info.provenance = json.at("provenance").get<Metadata>();
  for (const auto& [name, value] : json.at("metrics").items())
    info.metrics[name] =
        value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  return manifest;
}

}  // namespace

std::string to_text(const Manifest& manifest) {
  try {
    std::string text = to_json(manifest).dump(1) + '\n';
    text.replace(kStart.size(), kChecksumSize, own_checksum(text));
    return text;
  } catch (const Json::type_error& error) {
    throw InvalidArgument(std::string("provenance and metrics must be UTF-8: ") + error.what());
  }
}

Manifest parse_manifest(std::span<const std::byte> bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() < kStart.size() + kChecksumSize || !text.starts_with(kStart) ||
      own_checksum(text) != text.substr(kStart.size(), kChecksumSize))
    throw CheckpointError("checksum of the manifest differs: damaged");
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kFormat || json.at("version").get<int>() > kVersion)
      throw NewerFormat("has format " + json.at("format").dump() + " version " +
                        json.at("version").dump() + "; this version of canter reads \"" +
                        std::string(kFormat) + "\" up to version " + std::to_string(kVersion));
    return parse_json(json);
  } catch (const Json::exception& error) {
    throw CheckpointError(std::string("manifest is not of the format: ") + error.what());
  }
}

}  // namespace canter::detail
