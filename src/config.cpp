#include "config.hpp"

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <cstdlib>
#include <map>
#include <optional>
#include <type_traits>

#include "checkpoint/durable_file.hpp"

namespace canter {
namespace detail {
namespace {

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// calls visitor(section, name, field) for every option, in the order of the file
template <class Visitor>
void visit_sections(RunOptions& run, Visitor&& visitor) {
  const auto in = [&](const char* section) {
    return
        [&visitor, section](std::string_view name, auto& field) { visitor(section, name, field); };
  };
  visitor("", "env", run.env);
  visitor("", "preset", run.preset);
  visit(run.pool, in("pool"));
  visit(run.policy, in("policy"));
  visit(run.trainer.ppo, in("ppo"));
  // the trainer lists the options of its parts as well
  const std::vector<std::string> ppo = option_names<PpoOptions>();
  const std::vector<std::string> checkpoint = option_names<CheckpointOptions>();
  visit(run.trainer, [&](std::string_view name, auto& field) {
    if (!contains(ppo, name) && !contains(checkpoint, name)) visitor("trainer", name, field);
  });
  visit(run.trainer.checkpoint, in("checkpoint"));
}

// a float in its own precision: 0.0003, not the double next to it
template <class Field>
std::string field_text(const Field& field) {
  if constexpr (std::same_as<Field, float>) {
    std::array<char, 32> text{};
    *std::to_chars(text.data(), text.data() + text.size() - 1, field).ptr = '\0';
    return to_string(OptionValue(std::strtod(text.data(), nullptr)));
  } else {
    return to_string(get_field(field));
  }
}

// seeds use all 64 bits, TOML's integers are signed
template <class Field>
void set_from_file(std::string_view name, Field& field, const OptionValue& value) {
  if constexpr (std::same_as<Field, std::uint64_t>) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      field = static_cast<std::uint64_t>(*integer);
      return;
    }
  }
  if constexpr (std::same_as<Field, std::vector<std::uint64_t>>) {
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
      field.assign(list->begin(), list->end());
      return;
    }
  }
  set_field(name, field, value);
}

[[noreturn]] void fail(const std::string& name, const toml::source_region& where,
                       const std::string& reason) {
  throw InvalidArgument(name + ":" + std::to_string(where.begin.line) + ": " + reason);
}

std::optional<OptionValue> to_value(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return OptionValue(value->get());
  if (const auto* value = node.as_integer()) return OptionValue(value->get());
  if (const auto* value = node.as_floating_point()) return OptionValue(value->get());
  if (const auto* value = node.as_string()) return OptionValue(value->get());
  const auto* array = node.as_array();
  if (array == nullptr) return std::nullopt;
  std::vector<std::int64_t> list;
  for (const toml::node& item : *array) {
    const auto* integer = item.as_integer();
    if (integer == nullptr) return std::nullopt;
    list.push_back(integer->get());
  }
  return OptionValue(std::move(list));
}

void apply(RunOptions& run, std::string_view section, std::string_view name,
           const toml::node& node) {
  bool found = false;
  std::vector<std::string> known;
  visit_sections(run, [&](std::string_view s, std::string_view n, auto& field) {
    if (s != section) return;
    known.emplace_back(n);
    if (n != name) return;
    found = true;
    const auto value = to_value(node);
    if (!value) throw InvalidArgument(std::string(name) + " has a value that no option takes");
    set_from_file(name, field, *value);
  });
  if (!found) throw_unknown("option", name, known);
}

void apply_table(RunOptions& run, const std::string& section, const toml::table& table,
                 const std::string& file) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    try {
      if (const toml::table* inner = node.as_table()) {
        if (!section.empty()) throw InvalidArgument("section '" + name + "' is nested too deeply");
        if (!contains({"pool", "policy", "ppo", "trainer", "checkpoint"}, name))
          throw_unknown("section", name, {"pool", "policy", "ppo", "trainer", "checkpoint"});
        apply_table(run, name, *inner, file);
      } else {
        apply(run, section, name, node);
      }
    } catch (const InvalidArgument& error) {
      const std::string reason = error.what();
      if (reason.starts_with(file + ":")) throw;
      fail(file, key.source(), reason);
    }
  }
}

}  // namespace

bool may_differ(std::string_view name) {
  return contains({"total_steps", "num_threads", "num_shards", "directory", "model_path",
                   "keep_last", "background", "save_interval_seconds", "preset"},
                  name);
}

std::string to_toml(const RunOptions& run) {
  std::string text, current;
  RunOptions copy = run;
  visit_sections(copy, [&](std::string_view section, std::string_view name, const auto& field) {
    if (section != current) {
      current = section;
      text += "\n[" + current + "]\n";
    }
    text += std::string(name) + " = " + field_text(field) + '\n';
  });
  return text;
}

RunOptions parse_toml(const std::string& text, const std::string& name, bool is_whole) {
  toml::table table;
  try {
    table = toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    fail(name, error.source(), std::string(error.description()));
  }
  RunOptions run;
  // a file that someone wrote by hand may name a preset and only what differs from it
  const std::string base = table["preset"].value_or(std::string());
  const std::string env = table["env"].value_or(std::string());
  if (!base.empty() && !is_whole) run = preset(base, env);
  apply_table(run, "", table, name);
  return run;
}

std::vector<std::string> differences(const RunOptions& run, const RunOptions& saved) {
  std::map<std::string, std::string> before;
  RunOptions a = saved, b = run;
  visit_sections(a, [&](std::string_view section, std::string_view name, const auto& field) {
    before[std::string(section) + '.' + std::string(name)] = field_text(field);
  });
  std::vector<std::string> out;
  visit_sections(b, [&](std::string_view section, std::string_view name, const auto& field) {
    const std::string now = field_text(field);
    const std::string& then = before[std::string(section) + '.' + std::string(name)];
    if (now != then && !may_differ(name))
      out.push_back(std::string(name) + " is " + now + ", but " + then + " in the saved run");
  });
  return out;
}

}  // namespace detail

void save_config(const std::filesystem::path& path, const RunOptions& run) {
  const std::string text = detail::to_toml(run);
  detail::write_durably(path, std::as_bytes(std::span(text.data(), text.size())));
}

RunOptions load_config(const std::filesystem::path& path) {
  constexpr std::uintmax_t max_size = 1 << 20;
  const auto bytes = detail::read_file(path, max_size);
  if (!bytes) throw InvalidArgument("'" + path.string() + "': no such file");
  return detail::parse_toml({reinterpret_cast<const char*>(bytes->data()), bytes->size()},
                            path.string());
}

}  // namespace canter
