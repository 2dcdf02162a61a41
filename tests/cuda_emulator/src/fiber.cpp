#include "tests/cuda_emulator/src/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "tests/cuda_emulator/src/sanitizer.h"
#include "tests/cuda_emulator/src/stream.h"

#if defined(__x86_64__)
#define CUDA_EMULATOR_ASSEMBLY_SWITCH 1
#else
#include <ucontext.h>
#endif

namespace cuda_emulator {
namespace {

#ifdef CUDA_EMULATOR_ASAN
constexpr std::size_t kStackBytes = std::size_t{256} << 10;
#else
constexpr std::size_t kStackBytes = std::size_t{64} << 10;
#endif

#ifdef CUDA_EMULATOR_ASSEMBLY_SWITCH
// Stores the registers that calls preserve (System V: rbx, rbp, r12 to r15, the control words of
// SSE and x87) on the stack, its pointer in *from, and continues where `to` was stored. swapcontext
// does the same with a system call for the signal mask, six times slower. A new stack is stored as
// if it had left demi_emulator_enter, which calls r13 with the argument r12.
extern "C" void demi_emulator_switch(void** from, void* to);
extern "C" void demi_emulator_enter();
asm(R"(
    .text
    .p2align 4
    .type demi_emulator_switch, @function
demi_emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    subq $8, %rsp
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    ldmxcsr (%rsp)
    fldcw 4(%rsp)
    addq $8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size demi_emulator_switch, . - demi_emulator_switch

    .p2align 4
    .type demi_emulator_enter, @function
demi_emulator_enter:
    movq %r12, %rdi
    callq *%r13
    ud2
    .size demi_emulator_enter, . - demi_emulator_enter
)");
#endif

}  // namespace

struct Fiber::Context {
  char* mapping = nullptr;
  std::size_t mapped = 0;
  char* stack = nullptr;
#ifdef CUDA_EMULATOR_ASSEMBLY_SWITCH
  void* inside = nullptr;
  void* outside = nullptr;
#else
  ucontext_t inside = {};
  ucontext_t outside = {};
#endif
#ifdef CUDA_EMULATOR_ASAN
  void* fake_stack_inside = nullptr;
  void* fake_stack_outside = nullptr;
  const void* outer_stack = nullptr;
  std::size_t outer_stack_bytes = 0;
#endif

  void switch_inside() {
#ifdef CUDA_EMULATOR_ASSEMBLY_SWITCH
    demi_emulator_switch(&outside, inside);
#else
    swapcontext(&outside, &inside);
#endif
  }
  void switch_outside() {
#ifdef CUDA_EMULATOR_ASSEMBLY_SWITCH
    demi_emulator_switch(&inside, outside);
#else
    swapcontext(&inside, &outside);
#endif
  }
};

Fiber::Fiber() : context_(std::make_unique<Context>()) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  context_->mapped = kStackBytes + page;
  void* mapping = mmap(nullptr, context_->mapped, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) fatal("no memory for the stack of a thread");
  context_->mapping = static_cast<char*>(mapping);
  // Who overflows the stack hits this page.
  mprotect(mapping, page, PROT_NONE);
  context_->stack = context_->mapping + page;
}

Fiber::~Fiber() {
  munmap(context_->mapping, context_->mapped);
}

void Fiber::start(void (*body)(void*), void* argument) {
  body_ = body;
  argument_ = argument;
  finished_ = false;
  // The frames that were left for good at the end of the last body marked their surroundings.
  allow(context_->stack, kStackBytes);
#ifdef CUDA_EMULATOR_ASSEMBLY_SWITCH
  std::uint32_t sse_control = 0;
  std::uint16_t x87_control = 0;
  asm volatile("stmxcsr %0" : "=m"(sse_control));
  asm volatile("fnstcw %0" : "=m"(x87_control));
  const std::uintptr_t stored[] = {
      sse_control | static_cast<std::uintptr_t>(x87_control) << 32,
      0,                                               // r15
      0,                                               // r14
      reinterpret_cast<std::uintptr_t>(&Fiber::main),  // r13
      reinterpret_cast<std::uintptr_t>(this),          // r12
      0,                                               // rbx
      0,                                               // rbp
      reinterpret_cast<std::uintptr_t>(&demi_emulator_enter),
      0,  // Two words keep the stack aligned to 16 bytes when it is entered.
      0,
  };
  char* top = context_->stack + kStackBytes - sizeof(stored);
  std::memcpy(top, stored, sizeof(stored));
  context_->inside = top;
#else
  getcontext(&context_->inside);
  context_->inside.uc_stack.ss_sp = context_->stack;
  context_->inside.uc_stack.ss_size = kStackBytes;
  context_->inside.uc_link = nullptr;
  // makecontext passes ints only.
  const auto address = reinterpret_cast<std::uintptr_t>(this);
  void (*const entry)(unsigned, unsigned) = [](unsigned low, unsigned high) {
    main(reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(high) << 32 | low));
  };
  makecontext(&context_->inside, reinterpret_cast<void (*)()>(entry), 2,
              static_cast<unsigned>(address),
              static_cast<unsigned>(static_cast<std::uint64_t>(address) >> 32));
#endif
}

void Fiber::main(Fiber* fiber) {
  fiber->arrive_inside();
  fiber->body_(fiber->argument_);
  fiber->finished_ = true;
  fiber->suspend();
  fatal("a fiber went on after its end");
}

void Fiber::arrive_inside() {
#ifdef CUDA_EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(context_->fake_stack_inside, &context_->outer_stack,
                                  &context_->outer_stack_bytes);
#endif
}

void Fiber::resume() {
#ifdef CUDA_EMULATOR_ASAN
  __sanitizer_start_switch_fiber(&context_->fake_stack_outside, context_->stack, kStackBytes);
#endif
  context_->switch_inside();
#ifdef CUDA_EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(context_->fake_stack_outside, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
#ifdef CUDA_EMULATOR_ASAN
  // Null at the end of the body: nobody returns to this stack.
  if (finished_) context_->fake_stack_inside = nullptr;
  __sanitizer_start_switch_fiber(finished_ ? nullptr : &context_->fake_stack_inside,
                                 context_->outer_stack, context_->outer_stack_bytes);
#endif
  context_->switch_outside();
  arrive_inside();
}

}  // namespace cuda_emulator
