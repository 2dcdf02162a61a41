// Small operations: ops on a few numbers, for which a launch of their own costs far more than the
// arithmetic. Their kernels describe what is to be done as an instruction, so that a sequence can
// let another launch carry it out (join_launches).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/context.h"
#include "kernels/kernel.h"

namespace demi::cuda {

enum class ScalarOp : std::int64_t {
  kIncrement,        ///< outputs: counter; inputs: apply
  kCycle,            ///< outputs: position, completed; inputs: apply; integers: length
  kAccumulate,       ///< outputs: total, weight, non_finite; inputs: value, weight, of dtypes
  kLossScaleUpdate,  ///< outputs: as the op's; inputs: finite; integers: growth_steps, dynamic
  kReciprocal,       ///< float32
  kMovingAverage,    ///< outputs: running; inputs: value, apply; integers: elements;
                     ///< numbers: momentum
  kSchedule,         ///< outputs: rate; inputs: step; schedules.cuh says what the numbers mean
};

/// One operation with its addresses. All words are set: kernels' arguments have no padding.
struct ScalarInstruction {
  ScalarOp op = ScalarOp::kIncrement;
  const void* inputs[2] = {};
  void* outputs[4] = {};
  std::int64_t dtypes[2] = {};  ///< DType, where the operation takes several
  std::int64_t integers[2] = {};
  double numbers[5] = {};
};

/// Instructions in device memory, carried out in order.
struct ScalarProgram {
  const ScalarInstruction* instructions = nullptr;
  std::int64_t count = 0;
};

/// A kernel of one instruction.
class ScalarKernel final : public Kernel {
 public:
  /// Returns the instruction for the addresses of a run, but for its op.
  using Describe = std::function<ScalarInstruction(const KernelArguments&)>;

  ScalarKernel(std::string name, ScalarOp op, Describe describe, Context& context)
      : Kernel(std::move(name)), op_(op), describe_(std::move(describe)), context_(context) {}

  void run(const KernelArguments& arguments) override;

  [[nodiscard]] ScalarInstruction instruction(const KernelArguments& arguments) const {
    ScalarInstruction instruction = describe_(arguments);
    instruction.op = op_;
    return instruction;
  }
  [[nodiscard]] bool is_average() const { return op_ == ScalarOp::kMovingAverage; }

 private:
  ScalarOp op_;
  Describe describe_;
  Context& context_;
};

/// A kernel whose last block carries out a program when all else is done.
class CarryingKernel : public Kernel {
 public:
  void run(const KernelArguments& arguments) final { run_then(arguments, {}); }
  virtual void run_then(const KernelArguments& arguments, const ScalarProgram& then) = 0;

 protected:
  using Kernel::Kernel;
};

/// Starts a launch of `program`, in order.
void run_in_order(const ScalarProgram& program, cudaStream_t stream);
/// Starts a launch in which each instruction of `program` has a block of its own.
void run_side_by_side(const ScalarProgram& program, cudaStream_t stream);

/// Neighbouring kernels that share a launch: `first` and the `joined` ones behind it.
struct JoinedLaunch {
  enum class Kind {
    kAlone,       ///< joined == 0
    kCarried,     ///< `first` is a CarryingKernel, the others become its program
    kInOrder,     ///< all are one program
    kSideBySide,  ///< the same, of moving averages, which are independent of each other
  };
  Kind kind = Kind::kAlone;
  std::size_t first = 0;
  std::size_t joined = 0;
};

/// Cuts a sequence of kernels into launches.
[[nodiscard]] std::vector<JoinedLaunch> join_launches(std::span<Kernel* const> kernels);

}  // namespace demi::cuda
