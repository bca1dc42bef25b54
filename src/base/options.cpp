#include "canter/base/options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace canter {
namespace {

// Levenshtein distance in one row
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

template <class Number>
bool parse_whole(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_list(std::string_view text, std::vector<std::int64_t>& list) {
  const bool bracketed = text.size() >= 2 && text.front() == '[' && text.back() == ']';
  if (bracketed)
    text = text.substr(1, text.size() - 2);
  else if (text.find(',') == std::string_view::npos)
    return false;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, comma);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
    std::int64_t number = 0;
    if (!parse_whole(item, number)) return false;
    list.push_back(number);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return true;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (byte < 0x20 || byte == 0x7f)
      (((out += "\\u00") += kHex[byte >> 4])) += kHex[byte & 15];
    else
      out += c;
  }
  return out + '"';
}

std::string shortest(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  // a number that came from a float is shown as that float's shortest text
  char buffer[64];
  const auto as_float = static_cast<float>(number);
  const auto end = static_cast<double>(as_float) == number
                       ? std::to_chars(buffer, buffer + sizeof buffer, as_float).ptr
                       : std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  std::string text(buffer, end);
  // TOML tells floats from integers by the point or the exponent
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string nearest_match(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

void throw_unknown(std::string_view kind, std::string_view name,
                   const std::vector<std::string>& candidates) {
  std::string message = "unknown " + std::string(kind) + " " + quoted(name);
  const std::string nearest = nearest_match(name, candidates);
  if (!nearest.empty()) {
    message += "; did you mean " + quoted(nearest) + "?";
  } else {
    message += "; there are";
    for (std::size_t i = 0; i < candidates.size(); ++i) message += (i ? ", " : " ") + candidates[i];
  }
  throw InvalidArgument(message);
}

std::string to_string(const OptionValue& value) {
  struct Writer {
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(std::int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const { return shortest(d); }
    std::string operator()(const std::string& s) const { return quoted(s); }
    std::string operator()(const std::vector<std::int64_t>& list) const {
      std::string out = "[";
      for (std::size_t i = 0; i < list.size(); ++i)
        out += (i ? ", " : "") + std::to_string(list[i]);
      return out + ']';
    }
  };
  return std::visit(Writer{}, value);
}

OptionValue parse_option_value(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  std::int64_t integer = 0;
  if (parse_whole(text, integer)) return integer;
  double number = 0;
  if (parse_whole(text, number)) return number;
  std::vector<std::int64_t> list;
  if (parse_list(text, list)) return list;
  return std::string(text);
}

namespace detail {

void throw_option_type(std::string_view name, const OptionValue& value, std::string_view expected) {
  throw InvalidArgument(std::string(name) + " must be " + std::string(expected) + ", got " +
                        to_string(value));
}

std::int64_t to_integer(std::string_view name, const OptionValue& value, std::int64_t low,
                        std::uint64_t high) {
  std::int64_t integer = 0;
  if (const auto* i = std::get_if<std::int64_t>(&value)) {
    integer = *i;
  } else if (const auto* d = std::get_if<double>(&value);
             d && std::nearbyint(*d) == *d && std::abs(*d) < 0x1p53) {
    integer = static_cast<std::int64_t>(*d);  // 1e6 is a fine number of steps
  } else {
    throw_option_type(name, value, "an integer");
  }
  if (integer < low || (integer > 0 && static_cast<std::uint64_t>(integer) > high))
    throw_option_type(name, value,
                      "in [" + std::to_string(low) + ", " + std::to_string(high) + "]");
  return integer;
}

double to_double(std::string_view name, const OptionValue& value) {
  if (const auto* i = std::get_if<std::int64_t>(&value)) return static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&value)) return *d;
  throw_option_type(name, value, "a number");
}

}  // namespace detail
}  // namespace canter
