// Kernels of the family movement: they copy elements without looking at them, except that
// concatenate converts what has another dtype than its result.

#include <demi/ops/movement.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/ranges.h"
#include "kernels/cpu/registry.h"

namespace demi::cpu {
namespace {

using Extents = std::array<std::int64_t, Shape::kMaxRank>;

std::int64_t element_size(DType dtype) {
  return static_cast<std::int64_t>(size_of(dtype));
}

/// How many rows of `elements` elements make a chunk.
std::int64_t rows_at_once(std::int64_t elements) {
  return std::max<std::int64_t>(1, kElementwiseGrain / std::max<std::int64_t>(1, elements));
}

void copy_bytes(char* to, const char* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void zero_bytes(char* to, std::int64_t bytes) {
  if (bytes > 0) std::memset(to, 0, static_cast<std::size_t>(bytes));
}

// ---- transpose ------------------------------------------------------------------------------

/// Axes of the output, outermost first, and the step in the input along each. Axes of extent 1 are
/// dropped, neighbours that stay neighbours are merged.
struct TransposeLayout {
  int rank = 0;
  Extents extent{};
  Extents stride{};
};

TransposeLayout transpose_layout(const Shape& x, const std::vector<int>& permutation) {
  Extents natural{};
  std::int64_t step = 1;
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    natural[static_cast<std::size_t>(axis)] = step;
    step *= x[axis];
  }
  TransposeLayout layout;
  for (const int axis : permutation) {
    const std::int64_t extent = x[axis];
    const std::int64_t stride = natural[static_cast<std::size_t>(axis)];
    if (extent == 1) continue;
    if (layout.rank > 0) {
      const auto last = static_cast<std::size_t>(layout.rank - 1);
      if (layout.stride[last] == stride * extent) {
        layout.extent[last] *= extent;
        layout.stride[last] = stride;
        continue;
      }
    }
    const auto next = static_cast<std::size_t>(layout.rank++);
    layout.extent[next] = extent;
    layout.stride[next] = stride;
  }
  return layout;
}

/// to[i · to_stride + j] = from[i + j · from_stride], in tiles that stay in the cache.
template <class Word>
void transpose_matrix(const Word* from, std::int64_t from_stride, Word* to, std::int64_t to_stride,
                      std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kTile = 16;
  for (std::int64_t i0 = 0; i0 < rows; i0 += kTile) {
    const std::int64_t i1 = std::min(i0 + kTile, rows);
    for (std::int64_t j0 = 0; j0 < columns; j0 += kTile) {
      const std::int64_t j1 = std::min(j0 + kTile, columns);
      for (std::int64_t i = i0; i < i1; ++i) {
        for (std::int64_t j = j0; j < j1; ++j) {
          to[i * to_stride + j] = from[i + j * from_stride];
        }
      }
    }
  }
}

/// The input's innermost axis is axis `inner` of the output, the output's is another: each
/// combination of the other axes is a matrix to be transposed, a chunk is a stripe of it.
template <class Word>
class TransposeKernel final : public Kernel {
 public:
  TransposeKernel(const TransposeLayout& layout, ThreadPool& pool)
      : Kernel("tiles"), layout_(layout), pool_(pool) {
    std::int64_t step = 1;
    for (int axis = layout.rank - 1; axis >= 0; --axis) {
      const auto k = static_cast<std::size_t>(axis);
      output_stride_[k] = step;
      step *= layout.extent[k];
      if (layout.stride[k] == 1) inner_ = k;
      if (layout.extent[k] == 0) empty_ = true;
    }
    columns_ = layout.extent[static_cast<std::size_t>(layout.rank - 1)];
    for (std::size_t k = 0; k + 1 < static_cast<std::size_t>(layout.rank); ++k) {
      if (k != inner_) matrices_ *= layout.extent[k];
    }
  }

  void run(const KernelArguments& arguments) override {
    if (empty_) return;
    const std::int64_t rows = layout_.extent[inner_];
    const std::int64_t stripe = std::min(rows, rows_at_once(columns_));
    const std::int64_t stripes = (rows + stripe - 1) / stripe;
    for_ranges(pool_, matrices_ * stripes, rows_at_once(stripe * columns_),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t task = begin; task < end; ++task) {
                   const std::int64_t row = task % stripes * stripe;
                   transpose_stripe(arguments, task / stripes, row, std::min(stripe, rows - row));
                 }
               });
  }

 private:
  void transpose_stripe(const KernelArguments& arguments, std::int64_t matrix, std::int64_t row,
                        std::int64_t rows) const {
    std::int64_t from = row;
    std::int64_t to = row * output_stride_[inner_];
    for (int axis = layout_.rank - 2; axis >= 0; --axis) {
      const auto k = static_cast<std::size_t>(axis);
      if (k == inner_) continue;
      const std::int64_t index = matrix % layout_.extent[k];
      matrix /= layout_.extent[k];
      from += index * layout_.stride[k];
      to += index * output_stride_[k];
    }
    transpose_matrix(arguments.input<Word>(0) + from,
                     layout_.stride[static_cast<std::size_t>(layout_.rank - 1)],
                     arguments.output<Word>(0) + to, output_stride_[inner_], rows, columns_);
  }

  const TransposeLayout layout_;
  Extents output_stride_{};
  std::size_t inner_ = 0;
  bool empty_ = false;
  std::int64_t columns_ = 1;
  std::int64_t matrices_ = 1;
  ThreadPool& pool_;
};

std::unique_ptr<Kernel> make_transpose_tiles(const KernelRequest& request, ThreadPool& pool,
                                             std::string& reason) {
  const TensorType& x = request.inputs[0];
  const TransposeLayout layout =
      transpose_layout(x.shape, request.attributes.as<ops::TransposeAttributes>().permutation);
  if (layout.rank == 0 || layout.stride[static_cast<std::size_t>(layout.rank - 1)] == 1) {
    reason = "the innermost axis stays innermost";
    return nullptr;
  }
  switch (size_of(x.dtype)) {
    case 1:
      return std::make_unique<TransposeKernel<std::uint8_t>>(layout, pool);
    case 2:
      return std::make_unique<TransposeKernel<std::uint16_t>>(layout, pool);
    case 4:
      return std::make_unique<TransposeKernel<std::uint32_t>>(layout, pool);
    default:
      return std::make_unique<TransposeKernel<std::uint64_t>>(layout, pool);
  }
}

/// Copies runs along the innermost axis, which is the same in input and output.
std::unique_ptr<Kernel> make_transpose_runs(const KernelRequest& request, ThreadPool& pool,
                                            std::string&) {
  const TensorType& x = request.inputs[0];
  const TransposeLayout layout =
      transpose_layout(x.shape, request.attributes.as<ops::TransposeAttributes>().permutation);
  const std::int64_t run =
      layout.rank == 0 ? 1 : layout.extent[static_cast<std::size_t>(layout.rank - 1)];
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < layout.rank; ++axis) {
    rows *= layout.extent[static_cast<std::size_t>(axis)];
  }
  const auto body = [&pool, layout, run, rows,
                     size = element_size(x.dtype)](const KernelArguments& arguments) {
    for_ranges(pool, rows, rows_at_once(run), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        std::int64_t rest = row, from = 0;
        for (int axis = layout.rank - 2; axis >= 0; --axis) {
          const auto k = static_cast<std::size_t>(axis);
          from += rest % layout.extent[k] * layout.stride[k];
          rest /= layout.extent[k];
        }
        copy_bytes(arguments.output<char>(0) + row * run * size,
                   arguments.input<char>(0) + from * size, run * size);
      }
    });
  };
  return make_kernel("runs", 0, body);
}

// ---- concatenate ----------------------------------------------------------------------------

struct Piece {
  std::int64_t run;     ///< elements of this input in one row of the result
  std::int64_t offset;  ///< of them in the row
  std::int64_t size;    ///< bytes of an element of the input
  ConvertFn convert;
};

std::unique_ptr<Kernel> make_concatenate(const KernelRequest& request, ThreadPool& pool,
                                         std::string&) {
  const TensorType& y = request.outputs[0];
  const int axis = y.shape.normalize_axis(request.attributes.as<ops::ConcatenateAttributes>().axis);
  std::int64_t rows = 1, inner = 1;
  for (int i = 0; i < y.shape.rank(); ++i) {
    if (i < axis) rows *= y.shape[i];
    if (i > axis) inner *= y.shape[i];
  }
  std::vector<Piece> pieces;
  std::int64_t row_length = 0;
  for (const TensorType& input : request.inputs) {
    const std::int64_t run = input.shape[axis] * inner;
    pieces.push_back({run, row_length, element_size(input.dtype), converter(input.dtype, y.dtype)});
    row_length += run;
  }
  const auto body = [&pool, rows, row_length, pieces,
                     size = element_size(y.dtype)](const KernelArguments& arguments) {
    for_ranges(pool, rows, rows_at_once(row_length), [&](std::int64_t begin, std::int64_t end) {
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const Piece& piece = pieces[i];
        for (std::int64_t row = begin; row < end; ++row) {
          piece.convert(arguments.input<char>(i) + row * piece.run * piece.size,
                        arguments.output<char>(0) + (row * row_length + piece.offset) * size,
                        piece.run);
        }
      }
    });
  };
  return make_kernel("runs", 0, body);
}

// ---- slice and pad_slice --------------------------------------------------------------------

/// A box [begin, begin + size) in an array of `extent`: axes outermost first, in elements, the last
/// one contiguous; trailing axes that the box spans are merged into it.
struct Box {
  int rank = 1;
  Extents extent{1};
  Extents begin{0};
  Extents size{1};

  [[nodiscard]] std::size_t last() const { return static_cast<std::size_t>(rank - 1); }
};

Box make_box(const Shape& full, const std::vector<std::int64_t>& begin, const Shape& part) {
  Box box;
  if (full.rank() == 0) return box;
  box.rank = full.rank();
  for (int axis = 0; axis < box.rank; ++axis) {
    const auto k = static_cast<std::size_t>(axis);
    box.extent[k] = full[axis];
    box.begin[k] = begin[k];
    box.size[k] = part[axis];
  }
  while (box.rank > 1 && box.size[box.last()] == box.extent[box.last()]) {
    const std::int64_t inner = box.extent[box.last()];
    --box.rank;
    box.extent[box.last()] *= inner;
    box.begin[box.last()] *= inner;
    box.size[box.last()] *= inner;
  }
  return box;
}

std::unique_ptr<Kernel> make_slice(const KernelRequest& request, ThreadPool& pool, std::string&) {
  const TensorType& x = request.inputs[0];
  const TensorType& y = request.outputs[0];
  const Box box = make_box(x.shape, request.attributes.as<ops::SliceAttributes>().begin, y.shape);
  const std::int64_t run = box.size[box.last()];
  std::int64_t rows = 1;
  for (std::size_t k = 0; k < box.last(); ++k) rows *= box.size[k];
  const auto body = [&pool, box, run, rows,
                     size = element_size(x.dtype)](const KernelArguments& arguments) {
    for_ranges(pool, rows, rows_at_once(run), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        std::int64_t rest = row, from = box.begin[box.last()], stride = box.extent[box.last()];
        for (std::size_t k = box.last(); k-- > 0;) {
          from += (rest % box.size[k] + box.begin[k]) * stride;
          rest /= box.size[k];
          stride *= box.extent[k];
        }
        copy_bytes(arguments.output<char>(0) + row * run * size,
                   arguments.input<char>(0) + from * size, run * size);
      }
    });
  };
  return make_kernel("runs", 0, body);
}

std::unique_ptr<Kernel> make_pad_slice(const KernelRequest& request, ThreadPool& pool,
                                       std::string&) {
  const TensorType& dy = request.inputs[0];
  const TensorType& dx = request.outputs[0];
  const Box box = make_box(dx.shape, request.attributes.as<ops::SliceAttributes>().begin, dy.shape);
  const std::int64_t length = box.extent[box.last()];
  std::int64_t rows = 1;
  for (std::size_t k = 0; k < box.last(); ++k) rows *= box.extent[k];
  const auto body = [&pool, box, length, rows,
                     size = element_size(dy.dtype)](const KernelArguments& arguments) {
    for_ranges(pool, rows, rows_at_once(length), [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t run = box.size[box.last()];
      const std::int64_t before = box.begin[box.last()];
      for (std::int64_t row = begin; row < end; ++row) {
        bool inside = true;
        std::int64_t rest = row, from = 0, stride = run;
        for (std::size_t k = box.last(); k-- > 0;) {
          const std::int64_t index = rest % box.extent[k] - box.begin[k];
          rest /= box.extent[k];
          inside = inside && index >= 0 && index < box.size[k];
          from += index * stride;
          stride *= box.size[k];
        }
        char* to = arguments.output<char>(0) + row * length * size;
        if (!inside) {
          zero_bytes(to, length * size);
          continue;
        }
        zero_bytes(to, before * size);
        copy_bytes(to + before * size, arguments.input<char>(0) + from * size, run * size);
        zero_bytes(to + (before + run) * size, (length - before - run) * size);
      }
    });
  };
  return make_kernel("runs", 0, body);
}

}  // namespace

void register_movement_kernels(Registry& registry) {
  registry.add("transpose", "tiles", make_transpose_tiles);
  registry.add("transpose", "runs", make_transpose_runs);
  registry.add("concatenate", "runs", make_concatenate);
  registry.add("slice", "runs", make_slice);
  registry.add("pad_slice", "runs", make_pad_slice);
}

}  // namespace demi::cpu
