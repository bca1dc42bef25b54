#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "canter/base/threads.hpp"

namespace canter {
namespace {

// cores that "quota period" of a cgroup allows; 0 when there is no limit
int cores_of(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return 0;
  return std::max(1, static_cast<int>(std::ceil(quota / period)));
}

double number_in(const std::string& path) {
  std::ifstream file(path);
  double number = 0;
  return file >> number ? number : 0;
}

int quota_in_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max") return 0;
  return cores_of(std::atof(quota.c_str()), period);
}

int quota_in_v1(const std::string& folder) {
  return cores_of(number_in(folder + "/cpu.cfs_quota_us"),
                  number_in(folder + "/cpu.cfs_period_us"));
}

// the tightest quota of this process's cgroup and its parents; 0 when there is none
int cgroup_cores() {
  int tightest = 0;
  const auto consider = [&](int cores) {
    if (cores > 0 && (tightest == 0 || cores < tightest)) tightest = cores;
  };
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    // inside a container the path may be the host's: the mount's root counts as well
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      if (v2)
        consider(quota_in_v2("/sys/fs/cgroup" + path));
      else
        for (const char* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"})
          consider(quota_in_v1(mount + path));
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return tightest;
}

int affinity_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

int usable_cores() {
  const int quota = cgroup_cores();
  return quota > 0 ? std::min(quota, affinity_cores()) : affinity_cores();
}

}  // namespace canter
