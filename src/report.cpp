#include "canter/report.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <string_view>
#include <type_traits>

namespace canter {
namespace {

// appends text to caller-owned memory and remembers when it did not fit
class Writer {
 public:
  explicit Writer(std::span<char> out)
      : begin_(out.data()), next_(begin_), end_(begin_ + out.size()) {}

  void text(std::string_view text) {
    if (text.size() > static_cast<std::size_t>(end_ - next_)) fits_ = false;
    if (!fits_) return;
    next_ += text.copy(next_, text.size());
  }
  template <class Number>
  void number(Number value) {
    if constexpr (std::is_floating_point_v<Number>)
      if (!std::isfinite(value)) return text("null");
    const std::to_chars_result result = std::to_chars(next_, end_, value);
    if (result.ec != std::errc{}) fits_ = false;
    if (fits_) next_ = result.ptr;
  }
  std::size_t size() const { return fits_ ? static_cast<std::size_t>(next_ - begin_) : 0; }

 private:
  char *begin_, *next_, *end_;
  bool fits_ = true;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Report& report) {
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(),
                "iteration %lld  steps %lld  %.0f steps/s  return %.4g +- %.3g  length %.4g  "
                "kl %.3g  entropy %.3g  explained %.2f",
                static_cast<long long>(report.iteration), static_cast<long long>(report.env_steps),
                report.steps_per_second, report.episode_return_mean, report.episode_return_std,
                report.episode_length_mean, report.approx_kl, report.entropy,
                report.explained_variance);
  out << line.data();
  if (!report.warning.empty()) out << "  (" << report.warning << ')';
  return out;
}

std::size_t write_json(const Report& report, std::span<char> out) noexcept {
  Writer writer(out);
  writer.text("{");
  bool first = true;
  // visit takes what it may change; nothing here does
  visit(const_cast<Report&>(report), [&](std::string_view name, const auto& value) {
    writer.text(first ? "\"" : ", \"");
    writer.text(name);
    writer.text("\": ");
    writer.number(value);
    first = false;
  });
  writer.text("}");
  return writer.size();
}

std::string to_json(const Report& report) {
  std::string text(2048, '\0');
  text.resize(write_json(report, text));
  return text;
}

}  // namespace canter
