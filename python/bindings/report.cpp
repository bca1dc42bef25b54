// Report for Python: its fields come from its visit.

#include "canter/report.hpp"

#include <sstream>

#include "bindings.hpp"

namespace canter::python {
namespace {

py::dict as_dict(Report report) {
  py::dict out;
  visit(report, [&](const char* name, auto& field) { out[name] = field; });
  return out;
}

std::string to_text(const Report& report) {
  std::ostringstream text;
  text << report;
  return text.str();
}

}  // namespace

// one attribute per field that the report's visit lists
void bind_report(py::module_& m) {
  py::class_<Report> cls(m, "Report",
                         R"(What one iteration did; its attributes are the keys of metrics.jsonl.

Losses are means over the update. Returns and lengths are of the last 100 episodes, NaN before the
first. Times are seconds of this iteration; `seconds` is that of the whole run.)");
  cls.def(py::init<>());
  Report fields;
  visit(fields, [&](const char* name, auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    cls.def_property_readonly(name, [name](const Report& report) {
      Field value{};
      visit(const_cast<Report&>(report), [&](const char* key, auto& member) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, Field>)
          if (std::string_view(key) == name) value = member;
      });
      return value;
    });
  });
  cls.def_readonly("warning", &Report::warning,
                   "A skipped update or a failed save in words, else ''; not in metrics.jsonl.");
  cls.def("as_dict", &as_dict, "All numbers by name.");
  cls.def("__repr__", [](const Report& r) { return "<Report " + to_text(r) + '>'; });
  cls.def("__str__", &to_text);
  cls.def(py::pickle(
      [](const Report& report) { return py::make_tuple(as_dict(report), report.warning); },
      [](const py::tuple& t) {
        const py::dict values = t[0];
        Report report;
        visit(report, [&](const char* name, auto& field) {
          field = values[name].cast<std::remove_cvref_t<decltype(field)>>();
        });
        report.warning = t[1].cast<std::string>();
        return report;
      }));
}

}  // namespace canter::python
