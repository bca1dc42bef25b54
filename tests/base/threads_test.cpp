#include "canter/base/threads.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "canter/base/error.hpp"

using namespace canter;

TEST_CASE("every body runs exactly once") {
  for (int size : {1, 2, 5}) {
    const auto threads = make_threads(size);
    CHECK(threads->size() == size);
    for (int count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
      threads->parallel_for(count, [&](int i) { ++runs[static_cast<std::size_t>(i)]; });
      for (const auto& run : runs) CHECK(run == 1);
      const Threads::Session session(*threads);
      for (int repeat = 0; repeat < 50; ++repeat)
        threads->parallel_for(count, [&](int i) { ++runs[static_cast<std::size_t>(i)]; });
      for (const auto& run : runs) CHECK(run == 51);
    }
  }
}

TEST_CASE("as many threads work as were asked for, also beyond the cores") {
  for (int size : {1, 2, 5}) {
    const auto threads = make_threads(size);
    std::mutex mutex;
    std::set<std::thread::id> seen;
    // bodies that wait for company prove that all of them run at the same time
    std::atomic<int> arrived{0};
    threads->parallel_for(size, [&](int) {
      ++arrived;
      while (arrived < size) std::this_thread::yield();
      std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
    CHECK(static_cast<int>(seen.size()) == size);
  }
}

TEST_CASE("the exception of the lowest index arrives after all bodies ran") {
  for (int size : {1, 3}) {
    const auto threads = make_threads(size);
    std::atomic<int> runs{0};
    std::string text;
    try {
      threads->parallel_for(100, [&](int i) {
        ++runs;
        if (i == 41 || i == 17) throw std::runtime_error(std::to_string(i));
      });
    } catch (const std::runtime_error& error) {
      text = error.what();
    }
    CHECK(text == "17");
    CHECK(runs == 100);
    threads->parallel_for(3, [&](int) { ++runs; });
    CHECK(runs == 103);
  }
}

TEST_CASE("two callers share one object without mixing their work") {
  const auto threads = make_threads(2);
  std::atomic<int> a{0}, b{0};
  std::thread other([&] {
    for (int repeat = 0; repeat < 500; ++repeat) threads->parallel_for(5, [&](int) { ++a; });
  });
  const Threads::Session session(*threads);
  for (int repeat = 0; repeat < 500; ++repeat) threads->parallel_for(5, [&](int) { ++b; });
  other.join();
  CHECK(a == 2500);
  CHECK(b == 2500);
}

TEST_CASE("bad numbers of threads are refused") {
  CHECK_THROWS_WITH_AS(make_threads(-1),
                       "num_threads must be in [0, 1024] (0: the usable cores), got -1",
                       InvalidArgument);
  CHECK(make_threads(0)->size() == usable_cores());
  CHECK(usable_cores() >= 1);
}
