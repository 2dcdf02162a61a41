// Softmax, log-softmax and their gradients. Rows are brought into a float (or double) buffer a few
// thousand elements at a time, so any mix of dtypes and any axis runs through the same row
// functions.

#include <demi/ops/softmax.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/registry.h"
#include "kernels/cpu/rows.h"

namespace demi::cpu {
namespace {

/// The row to be replaced by the result comes first, further inputs of the op follow.
template <class Acc>
using RowFn = void (*)(Acc* x, const Acc* y, std::int64_t count);

template <class Acc>
void softmax_row(Acc* x, const Acc*, std::int64_t count) {
  const Acc sum = exponentiate_row(x, count, max_row(x, count));
  const Acc scale = sum == 0 ? Acc{0} : 1 / sum;
  for (std::int64_t i = 0; i < count; ++i) x[i] *= scale;
}

template <class Acc>
void log_softmax_row(Acc* x, const Acc*, std::int64_t count) {
  const Acc shift = max_row(x, count);
  const Acc sum = sum_row<Acc>(count, [&](std::int64_t i) { return exponential(x[i] - shift); });
  const Acc log_sum = sum == 0 ? Acc{0} : std::log(sum);
  for (std::int64_t i = 0; i < count; ++i) x[i] = (x[i] - shift) - log_sum;
}

template <class Acc>
void softmax_backward_row(Acc* dy, const Acc* y, std::int64_t count) {
  const Acc dot = sum_row<Acc>(count, [&](std::int64_t i) { return dy[i] * y[i]; });
  for (std::int64_t i = 0; i < count; ++i) dy[i] = y[i] * (dy[i] - dot);
}

template <class Acc>
void log_softmax_backward_row(Acc* dy, const Acc* y, std::int64_t count) {
  const Acc sum = sum_row<Acc>(count, [&](std::int64_t i) { return dy[i]; });
  for (std::int64_t i = 0; i < count; ++i) dy[i] -= exponential(y[i]) * sum;
}

/// Elements that a group of rows is made to hold.
constexpr std::int64_t kGroupElements = 4096;

/// The tensor as [outer, classes, inner], worked on in groups of `rows` rows along `classes`.
struct Layout {
  std::int64_t outer = 1;
  std::int64_t classes = 1;
  std::int64_t inner = 1;

  explicit Layout(const Shape& shape, int axis) {
    const int normalized = shape.normalize_axis(axis);
    for (int i = 0; i < shape.rank(); ++i) {
      (i < normalized ? outer : i == normalized ? classes : inner) *= shape[i];
    }
  }
  [[nodiscard]] std::int64_t extent() const { return inner == 1 ? outer : inner; }
  [[nodiscard]] std::int64_t rows() const {
    return std::clamp<std::int64_t>(kGroupElements / std::max<std::int64_t>(classes, 1), 1,
                                    std::max<std::int64_t>(extent(), 1));
  }
  [[nodiscard]] std::int64_t groups() const {
    if (outer * classes * inner == 0) return 0;
    const std::int64_t per_slice = (extent() + rows() - 1) / rows();
    return inner == 1 ? per_slice : outer * per_slice;
  }
};

/// One group: `count` rows that begin at element `offset`; contiguous if inner is 1, else columns.
struct Group {
  std::int64_t offset;
  std::int64_t count;

  Group(const Layout& layout, std::int64_t index) {
    const std::int64_t per_slice = (layout.extent() + layout.rows() - 1) / layout.rows();
    const std::int64_t first = index % per_slice * layout.rows();
    count = std::min(layout.rows(), layout.extent() - first);
    offset = layout.inner == 1 ? first * layout.classes
                               : index / per_slice * layout.classes * layout.inner + first;
  }
};

const char* at(const void* base, DType dtype, std::int64_t element) {
  return static_cast<const char*>(base) + element * static_cast<std::int64_t>(size_of(dtype));
}
char* at(void* base, DType dtype, std::int64_t element) {
  return static_cast<char*>(base) + element * static_cast<std::int64_t>(size_of(dtype));
}

template <class Acc>
void load_group(const Layout& layout, const Group& group, const void* from, DType dtype,
                ConvertFn convert, Acc* line, Acc* rows) {
  if (layout.inner == 1) {
    convert(at(from, dtype, group.offset), rows, group.count * layout.classes);
    return;
  }
  for (std::int64_t c = 0; c < layout.classes; ++c) {
    convert(at(from, dtype, group.offset + c * layout.inner), line, group.count);
    for (std::int64_t row = 0; row < group.count; ++row) rows[row * layout.classes + c] = line[row];
  }
}

template <class Acc>
void store_group(const Layout& layout, const Group& group, void* to, DType dtype, ConvertFn convert,
                 Acc* line, const Acc* rows) {
  if (layout.inner == 1) {
    convert(rows, at(to, dtype, group.offset), group.count * layout.classes);
    return;
  }
  for (std::int64_t c = 0; c < layout.classes; ++c) {
    for (std::int64_t row = 0; row < group.count; ++row) line[row] = rows[row * layout.classes + c];
    convert(line, at(to, dtype, group.offset + c * layout.inner), group.count);
  }
}

/// Elements rounded up so that the buffers of two threads share no cache line.
std::int64_t padded(std::int64_t elements) {
  return (elements + 15) / 16 * 16;
}

template <class Acc>
std::unique_ptr<Kernel> make_rows_kernel(const KernelRequest& request, ThreadPool& pool,
                                         RowFn<Acc> row_fn) {
  const Layout layout(request.outputs[0].shape,
                      request.attributes.as<ops::SoftmaxAttributes>().axis);
  const std::int64_t buffer = padded(layout.rows() * layout.classes);
  const std::int64_t line = layout.inner == 1 ? 0 : padded(layout.rows());
  const auto inputs = static_cast<std::int64_t>(request.inputs.size());
  const std::int64_t per_thread = inputs * buffer + line;
  std::vector<DType> dtypes;
  std::vector<ConvertFn> load;
  for (const TensorType& input : request.inputs) {
    dtypes.push_back(input.dtype);
    load.push_back(converter(input.dtype, dtype_of<Acc>));
  }
  const DType output = request.outputs[0].dtype;
  const ConvertFn store = converter(dtype_of<Acc>, output);
  const auto workspace = static_cast<std::size_t>(per_thread * pool.threads()) * sizeof(Acc);
  return make_kernel("rows", workspace, [=, &pool](const KernelArguments& arguments) {
    pool.parallel_for(layout.groups(), [&](std::int64_t index, int thread) {
      const Group group(layout, index);
      Acc* rows = static_cast<Acc*>(arguments.workspace) + thread * per_thread;
      Acc* line_buffer = rows + inputs * buffer;
      for (std::size_t i = 0; i < load.size(); ++i) {
        load_group(layout, group, arguments.inputs[i], dtypes[i], load[i], line_buffer,
                   rows + static_cast<std::int64_t>(i) * buffer);
      }
      for (std::int64_t row = 0; row < group.count; ++row) {
        Acc* x = rows + row * layout.classes;
        row_fn(x, inputs > 1 ? x + buffer : nullptr, layout.classes);
      }
      store_group(layout, group, arguments.outputs[0], output, store, line_buffer, rows);
    });
  });
}

template <RowFn<float> kSingle, RowFn<double> kDouble>
std::unique_ptr<Kernel> rows_factory(const KernelRequest& request, ThreadPool& pool, std::string&) {
  for (const TensorType& input : request.inputs) {
    if (input.dtype == DType::kFloat64) return make_rows_kernel<double>(request, pool, kDouble);
  }
  return make_rows_kernel<float>(request, pool, kSingle);
}

}  // namespace

void register_softmax_kernels(Registry& registry) {
  registry.add("softmax", "rows", rows_factory<softmax_row<float>, softmax_row<double>>);
  registry.add("softmax_backward", "rows",
               rows_factory<softmax_backward_row<float>, softmax_backward_row<double>>);
  registry.add("log_softmax", "rows",
               rows_factory<log_softmax_row<float>, log_softmax_row<double>>);
  registry.add("log_softmax_backward", "rows",
               rows_factory<log_softmax_backward_row<float>, log_softmax_backward_row<double>>);
}

}  // namespace demi::cpu
