// What the machine offers, for doctor and the first line of a run.

#include <string>

#include "bindings.hpp"
#include "canter/base/options.hpp"
#include "canter/base/threads.hpp"
#include "options.hpp"

namespace canter::python {

void bind_system(py::module_& m) {
  m.def("usable_cores", &usable_cores,
        "Cores this process may use: the smaller of its affinity mask and its cgroup CPU quota.");
  m.def(
      "parse_option_value",
      [](const std::string& text) { return to_python(parse_option_value(text)); }, py::arg("text"),
      "Text of a command line as a bool, a number, a list of integers or text.");
  m.def("nearest_match", &nearest_match, py::arg("name"), py::arg("candidates"),
        "The candidate closest to name by edit distance, or '' if none is near.");
}

}  // namespace canter::python
