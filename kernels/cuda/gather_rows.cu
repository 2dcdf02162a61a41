// Kernels of the family gather_rows: one launch for up to kMaxColumns arrays.

#include <demi/ops/gather_rows.h>

#include <algorithm>
#include <vector>

#include "kernels/cuda/any_element.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/registry.h"

namespace demi::cuda {
namespace {

constexpr int kMaxColumns = 8;

enum class Through : std::int64_t { kBytes, kInteger, kFloat, kDouble };

/// One array; elements of all arrays of a launch are numbered together.
struct Column {
  AnyInput x;
  AnyOutput y;
  std::int64_t first;     ///< number of its first element
  std::int64_t rows;      ///< that there are
  std::int64_t elements;  ///< of a row
  Through through;        ///< what elements become on their way
  std::int64_t size;      ///< of an element, for kBytes
  double scale, offset;
};

/// By value, an argument of the kernel.
struct Table {
  Column columns[kMaxColumns];
  std::int64_t count;
  std::int64_t elements;  ///< of all columns together
};

template <class Word>
__device__ void copy_word(const Column& column, std::int64_t from, std::int64_t to, bool is_there) {
  static_cast<Word*>(column.y.data)[to] =
      is_there ? static_cast<const Word*>(column.x.data)[from] : Word{0};
}

template <class C>
__device__ void rescale_element(const Column& column, std::int64_t from, std::int64_t to,
                                bool is_there) {
  const C x = is_there ? column.x.get<C>(from) : C{0};
  column.y.set<C>(to, x * static_cast<C>(column.scale) + static_cast<C>(column.offset));
}

__device__ void gather_element(const Column& column, std::int64_t from, std::int64_t to,
                               bool is_there) {
  switch (column.through) {
    case Through::kBytes:
      if (column.size == 1) copy_word<std::uint8_t>(column, from, to, is_there);
      if (column.size == 2) copy_word<std::uint16_t>(column, from, to, is_there);
      if (column.size == 4) copy_word<std::uint32_t>(column, from, to, is_there);
      if (column.size == 8) copy_word<std::uint64_t>(column, from, to, is_there);
      return;
    case Through::kInteger:
      column.y.set(to, is_there ? column.x.get<std::int64_t>(from) : std::int64_t{0});
      return;
    case Through::kFloat:
      rescale_element<float>(column, from, to, is_there);
      return;
    case Through::kDouble:
      rescale_element<double>(column, from, to, is_there);
      return;
  }
}

__global__ void gather(Table table, const std::int64_t* numbers) {
  for (std::int64_t i = thread_number(); i < table.elements; i += thread_count()) {
    int c = static_cast<int>(table.count) - 1;
    while (i < table.columns[c].first) --c;
    const Column& column = table.columns[c];
    const std::int64_t to = i - column.first;
    const std::int64_t row = numbers[to / column.elements];
    const bool is_there = row >= 0 && row < column.rows;
    gather_element(column, row * column.elements + to % column.elements, to, is_there);
  }
}

Through through_of(DType from, DType to, bool is_rescaled) {
  if (!is_rescaled && from == to) return Through::kBytes;
  if (from == float64 || to == float64) return Through::kDouble;
  return is_rescaled || is_floating(from) ? Through::kFloat : Through::kInteger;
}

/// Addresses are filled in by the launch.
std::vector<Table> make_tables(const KernelRequest& request) {
  const auto& rescales = request.attributes.as<ops::GatherRowsAttributes>().rescales;
  std::vector<Table> tables;
  for (std::size_t i = 0; i < rescales.size(); ++i) {
    if (tables.empty() || tables.back().count == kMaxColumns) tables.push_back({});
    Table& table = tables.back();
    const TensorType& x = request.inputs[i + 1];
    const TensorType& y = request.outputs[i];
    const bool is_rescaled = rescales[i] != ops::RescaleAttributes();
    table.columns[table.count++] = {.x = AnyInput(nullptr, x.dtype),
                                    .y = AnyOutput(nullptr, y.dtype),
                                    .first = table.elements,
                                    .rows = x.shape[0],
                                    .elements = x.shape.without_front().elements(),
                                    .through = through_of(x.dtype, y.dtype, is_rescaled),
                                    .size = static_cast<std::int64_t>(size_of(x.dtype)),
                                    .scale = rescales[i].scale,
                                    // x · 1 + -0 is x also where x is -0.
                                    .offset = is_rescaled ? rescales[i].offset : -0.0};
    table.elements += y.shape.elements();
  }
  return tables;
}

std::unique_ptr<Kernel> make_gather_rows(const KernelRequest& request, Context& context,
                                         std::string&) {
  return make_kernel(
      "tables", 0, [tables = make_tables(request), &context](const KernelArguments& a) {
        std::size_t array = 0;
        for (Table table : tables) {
          for (std::int64_t c = 0; c < table.count; ++c, ++array) {
            table.columns[c].x.data = a.inputs[array + 1];
            table.columns[c].y.data = a.outputs[array];
          }
          launch(&gather, elementwise_blocks(table.elements, context), kElementwiseThreads, 0,
                 context.stream(), table, a.input<std::int64_t>(0));
        }
      });
}

}  // namespace

void register_gather_rows_kernels(Registry& registry) {
  registry.add("gather_rows", "tables", make_gather_rows);
}

}  // namespace demi::cuda
