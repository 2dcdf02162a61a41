// Kernels of the family gather_rows.

#include <demi/ops/gather_rows.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/ranges.h"
#include "kernels/cpu/registry.h"

namespace demi::cpu {
namespace {

/// One array of the request.
struct Column {
  std::int64_t rows = 0;      ///< that there are
  std::int64_t elements = 0;  ///< of a row
  std::int64_t from_size = 0, to_size = 0;
  ConvertFn convert = nullptr;  ///< from storage to storage; null with a rescale
  ConvertFn load = nullptr;     ///< to the rescale's float
  ConvertFn store = nullptr;    ///< from it
  bool is_wide = false;         ///< that float is a double
  double scale = 1, offset = 0;
};

Column make_column(const TensorType& x, const TensorType& y,
                   const ops::RescaleAttributes& rescale) {
  Column column{.rows = x.shape[0],
                .elements = x.shape.without_front().elements(),
                .from_size = static_cast<std::int64_t>(size_of(x.dtype)),
                .to_size = static_cast<std::int64_t>(size_of(y.dtype)),
                .scale = rescale.scale,
                .offset = rescale.offset};
  if (rescale == ops::RescaleAttributes()) {
    column.convert = converter(x.dtype, y.dtype);
    return column;
  }
  column.is_wide = x.dtype == float64 || y.dtype == float64;
  const DType compute = column.is_wide ? float64 : float32;
  column.load = converter(x.dtype, compute);
  column.store = converter(compute, y.dtype);
  return column;
}

template <class Compute>
void rescale_row(const Column& column, const char* x, char* y) {
  constexpr std::int64_t kBlock = 512;
  const auto scale = static_cast<Compute>(column.scale);
  const auto offset = static_cast<Compute>(column.offset);
  Compute block[kBlock];
  for (std::int64_t at = 0; at < column.elements; at += kBlock) {
    const std::int64_t n = std::min(kBlock, column.elements - at);
    column.load(x + at * column.from_size, block, n);
    for (std::int64_t i = 0; i < n; ++i) block[i] = block[i] * scale + offset;
    column.store(block, y + at * column.to_size, n);
  }
}

void gather_row(const Column& column, const char* x, char* y) {
  if (column.convert != nullptr) {
    column.convert(x, y, column.elements);
  } else if (column.is_wide) {
    rescale_row<double>(column, x, y);
  } else {
    rescale_row<float>(column, x, y);
  }
}

std::unique_ptr<Kernel> make_gather_rows(const KernelRequest& request, ThreadPool& pool,
                                         std::string&) {
  const auto& rescales = request.attributes.as<ops::GatherRowsAttributes>().rescales;
  std::vector<Column> columns;
  std::int64_t longest = 1;
  for (std::size_t i = 0; i < rescales.size(); ++i) {
    columns.push_back(make_column(request.inputs[i + 1], request.outputs[i], rescales[i]));
    longest = std::max(longest, columns.back().elements);
  }
  // Stands for a row that there is not.
  const std::vector<char> zeros(static_cast<std::size_t>(longest) * sizeof(double), 0);
  const auto body = [&pool, columns, zeros, longest,
                     count = request.inputs[0].shape[0]](const KernelArguments& arguments) {
    const auto* numbers = arguments.input<std::int64_t>(0);
    const std::int64_t grain = std::max<std::int64_t>(1, kElementwiseGrain / longest);
    for_ranges(pool, count, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const Column& column = columns[c];
        const auto* x = arguments.input<char>(c + 1);
        auto* y = arguments.output<char>(c);
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t row = numbers[i];
          const bool is_there = row >= 0 && row < column.rows;
          gather_row(column, is_there ? x + row * column.elements * column.from_size : zeros.data(),
                     y + i * column.elements * column.to_size);
        }
      }
    });
  };
  return make_kernel("rows", 0, body);
}

}  // namespace

void register_gather_rows_kernels(Registry& registry) {
  registry.add("gather_rows", "rows", make_gather_rows);
}

}  // namespace demi::cpu
