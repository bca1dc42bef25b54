#include "base/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "canter/base/error.hpp"

namespace canter::detail {
namespace {

std::string in_gib(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", bytes / (1 << 30));
  return text;
}

}  // namespace

double usable_memory() {
  double bytes =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  // the limit of a container: "max", which is no number, or an absurd number where there is none
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    double limit = 0;
    if (file >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

void check_memory(const std::string& what, double bytes) {
  const double usable = usable_memory();
  if (bytes > usable)
    throw InvalidArgument(what + " needs about " + in_gib(bytes) + " of memory, there are " +
                          in_gib(usable));
}

}  // namespace canter::detail
