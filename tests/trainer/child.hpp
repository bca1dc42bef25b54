#pragma once
// Runs in processes of their own: fork and exec of this very test program, so that a child shares
// nothing with the test but the run directory.

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>

namespace canter::testing {

/// What a child does: resume, iterate up to `iterations`, then write the digest to "digest" in its
/// directory, or, with kill_after_save, save and die of SIGKILL.
struct ChildTask {
  std::string run;
  std::string directory;
  int num_threads = 1;
  int iterations = 0;
  double save_interval_seconds = -1;
  bool kill_after_save = false;
};

/// A started child.
class Child {
 public:
  explicit Child(const ChildTask& task) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    process_ = ::fork();
    if (process_ == 0) {
      ::close(ends[0]);
      ::setenv("CANTER_TEST_RUN", task.run.c_str(), 1);
      ::setenv("CANTER_TEST_DIRECTORY", task.directory.c_str(), 1);
      ::setenv("CANTER_TEST_THREADS", std::to_string(task.num_threads).c_str(), 1);
      ::setenv("CANTER_TEST_ITERATIONS", std::to_string(task.iterations).c_str(), 1);
      ::setenv("CANTER_TEST_INTERVAL", std::to_string(task.save_interval_seconds).c_str(), 1);
      ::setenv("CANTER_TEST_KILL", task.kill_after_save ? "1" : "0", 1);
      ::setenv("CANTER_TEST_READY", std::to_string(ends[1]).c_str(), 1);
      ::execl("/proc/self/exe", "canter_trainer_test", "--no-skip", "--minimal",
              "--test-case=child of another test", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(ends[1]);
    ready_ = ends[0];
  }
  ~Child() { ::close(ready_); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Waits for a sign of life: one after resuming, one after each iteration.
  void wait_for_sign() {
    char byte = 0;
    while (::read(ready_, &byte, 1) < 0) continue;
  }
  void kill() { ::kill(process_, SIGKILL); }
  /// The status that waitpid gives.
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    return status;
  }

 private:
  pid_t process_;
  int ready_;
};

/// Runs a child to its end. @returns the digest it wrote, or "" if it was killed or failed.
inline std::string run_child(const ChildTask& task) {
  const std::string path = task.directory + "/digest";
  ::unlink(path.c_str());
  Child child(task);
  child.wait();
  std::string digest;
  std::ifstream(path) >> digest;
  return digest;
}

}  // namespace canter::testing
