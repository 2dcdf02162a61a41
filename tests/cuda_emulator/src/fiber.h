// Fibers: stacks of their own, on which the threads of a block run until they must wait.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace cuda_emulator {

/// A stack that runs `body` again and again: resume() enters it, suspend() inside leaves it.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Begins `body(argument)` at the next resume(). The fiber is new, or its body has returned.
  void start(void (*body)(void*), void* argument);
  /// From outside: runs until suspend() or the end of the body.
  void resume();
  /// From inside: back to where resume() was called.
  void suspend();

  [[nodiscard]] bool finished() const { return finished_; }

 private:
  struct Context;

  static void main(Fiber* fiber);
  void arrive_inside();

  std::unique_ptr<Context> context_;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool finished_ = true;
};

}  // namespace cuda_emulator
