// Kernels whose output element i depends on element i of each (broadcast) input only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/cpu/operand.h"
#include "kernels/cpu/ranges.h"
#include "kernels/kernel.h"

namespace demi::cpu {

/// The type in which values of this promoted dtype are computed: float for the 16-bit types, int64
/// for integers and bool. Calls body.operator()<Compute>().
template <class Body>
decltype(auto) dispatch_compute(DType dtype, Body&& body) {
  if (!is_floating(dtype)) return body.template operator()<std::int64_t>();
  if (dtype == float64) return body.template operator()<double>();
  return body.template operator()<float>();
}

/// The output, written block by block from values of type Result.
template <class Result>
class ResultWriter {
 public:
  ResultWriter() = default;
  explicit ResultWriter(DType dtype)
      : size_(static_cast<std::int64_t>(size_of(dtype))),
        in_place_(dtype == dtype_of<Result>),
        store_(wrapping_converter(dtype_of<Result>, dtype)) {}

  /// Where to write the results that start at element `begin`: the output itself, or `buffer`.
  [[nodiscard]] Result* block(void* output, std::int64_t begin, Result* buffer) const {
    return in_place_ ? static_cast<Result*>(output) + begin : buffer;
  }
  /// Brings `count` results from what `block` returned to the output.
  void finish(void* output, std::int64_t begin, std::int64_t count, const Result* block) const {
    if (!in_place_) store_(block, static_cast<char*>(output) + begin * size_, count);
  }

 private:
  std::int64_t size_ = 0;
  bool in_place_ = false;
  ConvertFn store_ = nullptr;
};

/// Applies Op::apply to `count` elements of each array. `out` may be one of the inputs.
template <class Op, class Compute, class Result, std::size_t... I>
void apply_loop(const std::array<const Compute*, sizeof...(I)>& in, Result* out, std::int64_t count,
                std::index_sequence<I...>) {
  const auto arrays = in;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) out[i] = Op::apply(arrays[I][i]...);
}

/// A kernel that computes output 0 with Op::apply(Compute…) → Result from the first Inputs inputs.
template <class Op, class Compute, class Result, std::size_t Inputs>
[[nodiscard]] std::unique_ptr<Kernel> make_elementwise(const KernelRequest& request,
                                                       ThreadPool& pool) {
  const Shape& shape = request.outputs[0].shape;
  std::array<Operand<Compute>, Inputs> operands;
  for (std::size_t i = 0; i < Inputs; ++i) operands[i] = {request.inputs[i], shape};
  const ResultWriter<Result> writer(request.outputs[0].dtype);

  const auto run = [&pool, operands, writer,
                    count = shape.elements()](const KernelArguments& arguments) {
    for_ranges(pool, count, kElementwiseGrain, [&](std::int64_t begin, std::int64_t end) {
      [&]<std::size_t... I>(std::index_sequence<I...> indices) {
        std::array<typename Operand<Compute>::Reader, Inputs> readers = {
            typename Operand<Compute>::Reader(operands[I], arguments.inputs[I])...};
        alignas(64) Result buffer[kElementBlock];
        for (std::int64_t at = begin; at < end; at += kElementBlock) {
          const std::int64_t n = std::min(kElementBlock, end - at);
          Result* out = writer.block(arguments.outputs[0], at, buffer);
          apply_loop<Op, Compute, Result>({readers[I].block(at, n)...}, out, n, indices);
          writer.finish(arguments.outputs[0], at, n, out);
        }
      }
      (std::make_index_sequence<Inputs>());
    });
  };
  return make_kernel("elementwise", 0, run);
}

}  // namespace demi::cpu
