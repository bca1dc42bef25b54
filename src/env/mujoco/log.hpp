#pragma once
// How canter calls MuJoCo: silently, and with fatal errors caught. Both use the thread-local log
// handler that libmujoco exports for its Python bindings, so no process-wide handler is touched and
// the host's own keeps working outside of our calls.

#include <mujoco/mujoco.h>

#include <string>

namespace canter::mujoco {

/// While one lives, MuJoCo prints nothing and writes no MUJOCO_LOG.TXT from this thread; warnings
/// are dropped (mjData counts them). The thread's previous handler comes back at the end.
class LogGuard {
 public:
  LogGuard() noexcept;
  ~LogGuard();
  LogGuard(const LogGuard&) = delete;
  LogGuard& operator=(const LogGuard&) = delete;

 private:
  mjfLogHandler previous_ = nullptr;
  mjfLogHandler outer_ = nullptr;
};

/// Runs function(argument) silently. A fatal MuJoCo error leaves it by longjmp: it must not have
/// owning objects alive, nor throw. @returns false after such an error, with MuJoCo's text.
bool run_trapped(void (*function)(void*), void* argument, std::string& text);

}  // namespace canter::mujoco
