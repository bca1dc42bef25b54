#pragma once
// Clocks, alternating pairs and the lines that run.py reads. A shared machine drifts by tens of per
// cent within minutes: only what alternates within one run can be compared, and CPU time is
// steadier than the clock on the wall.

#include <ctime>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace bench {

inline double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
/// CPU seconds of the whole process, all threads.
inline double cpu_seconds() {
  return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}
/// Seconds on the wall.
inline double wall_seconds() {
  return seconds_of(CLOCK_MONOTONIC);
}

/// Seconds that `work` takes by `clock`.
template <class Work>
double time_of(double (*clock)(), Work&& work) {
  const double start = clock();
  work();
  return clock() - start;
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Medians of alternating runs of two programs.
struct Pair {
  double ours = 0;    ///< seconds of our side
  double theirs = 0;  ///< seconds of the other side
  double ratio = 0;   ///< median over the pairs of theirs / ours: our speed over theirs
};

/// Runs the sides in turn, first one and then the other first, after one untimed turn of each.
template <class Ours, class Theirs>
Pair alternate(int num_pairs, double (*clock)(), Ours&& ours, Theirs&& theirs) {
  std::vector<double> ours_seconds, theirs_seconds, ratios;
  for (int pair = -1; pair < num_pairs; ++pair) {
    double a = 0, b = 0;
    if (pair % 2) {
      a = time_of(clock, ours);
      b = time_of(clock, theirs);
    } else {
      b = time_of(clock, theirs);
      a = time_of(clock, ours);
    }
    if (pair < 0) continue;
    ours_seconds.push_back(a);
    theirs_seconds.push_back(b);
    ratios.push_back(b / a);
  }
  return {median(ours_seconds), median(theirs_seconds), median(ratios)};
}

/// One result for run.py, which knows the budgets.
inline void report(const std::string& name, double value, const std::string& unit) {
  std::printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", name.c_str(), value,
              unit.c_str());
  std::fflush(stdout);
}

/// Ends the program when two sides that must agree do not: their times mean nothing then.
inline void require(bool equal, const std::string& what) {
  if (equal) return;
  std::fprintf(stderr, "the two sides differ: %s\n", what.c_str());
  std::exit(1);
}

}  // namespace bench
