#include "env/mujoco/log.hpp"

#include <dlfcn.h>

#include <csetjmp>
#include <cstdio>

#include "canter/env/mujoco/model.hpp"

namespace canter::mujoco {
namespace {

using SetHandler = mjfLogHandler (*)(mjfLogHandler);
using GetHandler = mjfLogHandler (*)();

// looks a symbol up in the libmujoco that this library is linked to, also where a host loaded it
// with local visibility (a Python extension)
void* find_symbol(const char* name) noexcept {
  if (void* symbol = dlsym(RTLD_DEFAULT, name)) return symbol;
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void*>(&mj_step), &info)) return nullptr;
  void* library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return library ? dlsym(library, name) : nullptr;
}

SetHandler set_handler() noexcept {
  static const auto function =
      reinterpret_cast<SetHandler>(find_symbol("_mjPRIVATE_setTlsLogHandler"));
  return function;
}

thread_local std::jmp_buf* landing = nullptr;        // where the innermost run_trapped continues
thread_local char trapped_text[1024];                // of the error that jumped there
thread_local mjfLogHandler outer_handler = nullptr;  // of this thread, before the outermost guard

// drops warnings; an error that nobody traps goes to whoever was in charge, since MuJoCo ends the
// process after it
void quiet_handler(const mjLogMessage* message) {
  if (message->level != mjLOG_ERROR) return;
  if (outer_handler) return outer_handler(message);
  static const auto global =
      reinterpret_cast<GetHandler>(find_symbol("_mjPRIVATE_getGlobalLogHandler"));
  if (const mjfLogHandler handler = global ? global() : nullptr) handler(message);
}

void trap_handler(const mjLogMessage* message) {
  if (message->level != mjLOG_ERROR) return;
  std::snprintf(trapped_text, sizeof trapped_text, "%s", message->subject);
  std::longjmp(*landing, 1);
}

}  // namespace

LogGuard::LogGuard() noexcept {
  const SetHandler set = set_handler();
  if (!set) return;
  outer_ = outer_handler;
  previous_ = set(quiet_handler);
  if (previous_ != quiet_handler) outer_handler = previous_;
}

LogGuard::~LogGuard() {
  const SetHandler set = set_handler();
  if (!set) return;
  set(previous_);
  outer_handler = outer_;
}

bool run_trapped(void (*function)(void*), void* argument, std::string& text) {
  const SetHandler set = set_handler();
  if (!set) {
    function(argument);
    return true;
  }
  std::jmp_buf here;
  std::jmp_buf* const outer = landing;
  const mjfLogHandler previous = set(trap_handler);
  landing = &here;
  if (setjmp(here) == 0) {
    function(argument);
    landing = outer;
    set(previous);
    return true;
  }
  landing = outer;
  set(previous);
  text = trapped_text;
  return false;
}

bool has_thread_log_handler() noexcept {
  return set_handler() != nullptr;
}

}  // namespace canter::mujoco
