// A stack that a test jumps to. The thread sanitizer must be told of each one and of each jump:
// it takes frames there for those of the stack that it knows. Empty in other builds. Source: LLVM,
// compiler-rt/include/sanitizer/tsan_interface.h.
#pragma once

#ifdef __SANITIZE_THREAD__
#include <memory>

extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
}
#endif

namespace shardscope::test {

#ifdef __SANITIZE_THREAD__
class Fiber {
 public:
  /// The stack that runs now.
  Fiber() : stack_(__tsan_get_current_fiber()) {}
  /// A stack on which nothing ran yet.
  static Fiber fresh() {
    Fiber fiber;
    fiber.own_.reset(__tsan_create_fiber(0));
    fiber.stack_ = fiber.own_.get();
    return fiber;
  }
  /// Right before the jump. Inlined: a frame of its own would begin here and end there.
  [[gnu::always_inline]] void enter() const { __tsan_switch_to_fiber(stack_, 0); }

 private:
  struct Destroy {
    void operator()(void* fiber) const { __tsan_destroy_fiber(fiber); }
  };

  void* stack_;
  std::unique_ptr<void, Destroy> own_;
};
#else
class Fiber {
 public:
  static Fiber fresh() { return {}; }
  void enter() const {}
};
#endif

}  // namespace shardscope::test
