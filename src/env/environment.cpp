#include "canter/env/environment.hpp"

#include <cxxabi.h>

#include <cstdlib>

#include "canter/base/error.hpp"

namespace canter::detail {

void add_fault(Faults& faults, int row, const char* hook) {
  std::string message;
  try {
    throw;
  } catch (const std::exception& error) {
    message = error.what();
  } catch (...) {
    message = "an exception that is no std::exception";
  }
  faults.push_back({row, std::string(hook) + " threw: " + message});
}

void check_metrics(const Spec& spec, bool measures, const std::string& type) {
  if (measures || spec.metrics.empty()) return;
  throw InvalidArgument(type + ": spec.metrics names " + std::to_string(spec.metrics.size()) +
                        " values, but there is no `measure` hook that fills them");
}

std::string type_name(const char* mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? text : mangled;
  std::free(text);
  return name;
}

void check_state_size(std::size_t now, std::size_t listed) {
  if (now == listed) return;
  throw InvalidArgument("state: a vector's length differs between environments (" +
                        std::to_string(listed) + " bytes are expected in all, got " +
                        std::to_string(now) + ')');
}

}  // namespace canter::detail
