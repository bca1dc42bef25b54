#include <exception>

#include "canter/base/threads.hpp"

namespace canter {
namespace {

class SingleThread final : public Threads {
 public:
  int size() const noexcept override { return 1; }

 protected:
  void run(int count, void (*body)(void*, int), void* data) override {
    std::exception_ptr first;
    for (int i = 0; i < count; ++i) {
      try {
        body(data, i);
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
  }
  void begin_session() override {}
  void end_session() override {}
};

}  // namespace

std::shared_ptr<Threads> make_single_thread() {
  return std::make_shared<SingleThread>();
}

}  // namespace canter
