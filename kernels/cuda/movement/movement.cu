// Kernels of the family movement: they copy elements without looking at them, except that
// concatenate converts what has another dtype than its result.

#include <demi/ops/movement.h>

#include <vector>

#include "kernels/cuda/any_element.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/movement/strided.h"
#include "kernels/cuda/registry.h"

namespace demi::cuda {
namespace {

using movement::Axis;
using movement::make_copy;
using movement::StridedCopy;
using movement::strides_of;

struct Offsets {
  std::int64_t from, to;
};

template <class Index>
__device__ Offsets walk(const StridedCopy& copy, Index index) {
  Offsets offsets = {copy.from, copy.to};
  for (int axis = copy.rank - 1; axis >= 0; --axis) {
    const Index n = static_cast<Index>(copy.extent[axis]);
    const Index quotient = index / n;
    const auto position = static_cast<std::int64_t>(index - quotient * n);
    offsets.from += position * copy.from_stride[axis];
    offsets.to += position * copy.to_stride[axis];
    index = quotient;
  }
  return offsets;
}

__device__ Offsets offsets_of(const StridedCopy& copy, std::int64_t index) {
  return copy.narrow != 0 ? walk(copy, static_cast<std::uint32_t>(index)) : walk(copy, index);
}

template <class Word>
__global__ void copy_words(StridedCopy copy, const Word* x, Word* y) {
  for (std::int64_t i = thread_number(); i < copy.count; i += thread_count()) {
    const Offsets at = offsets_of(copy, i);
    y[at.to] = x[at.from];
  }
}

/// The same with elements of different dtypes, converted through C.
template <class C>
__global__ void copy_converted(StridedCopy copy, AnyInput x, AnyOutput y) {
  for (std::int64_t i = thread_number(); i < copy.count; i += thread_count()) {
    const Offsets at = offsets_of(copy, i);
    y.set(at.to, x.get<C>(at.from));
  }
}

/// body(TypeTag<Word>{}) with a type of that many bytes.
template <class Body>
auto dispatch_word(int bytes, Body&& body) {
  switch (bytes) {
    case 1:
      return body(TypeTag<std::uint8_t>{});
    case 2:
      return body(TypeTag<std::uint16_t>{});
    case 4:
      return body(TypeTag<std::uint32_t>{});
    case 8:
      return body(TypeTag<std::uint64_t>{});
    default:
      return body(TypeTag<uint4>{});
  }
}

void launch_copy(const StridedCopy& copy, const void* x, void* y, Context& context) {
  dispatch_word(copy.word, [&](auto tag) {
    using Word = typename decltype(tag)::type;
    launch(&copy_words<Word>, elementwise_blocks(copy.count, context), kElementwiseThreads, 0,
           context.stream(), copy, static_cast<const Word*>(x), static_cast<Word*>(y));
  });
}

std::unique_ptr<Kernel> make_copy_kernel(const StridedCopy& copy, Context& context) {
  return make_kernel("words", 0, [copy, &context](const KernelArguments& a) {
    launch_copy(copy, a.inputs[0], a.outputs[0], context);
  });
}

// ---- transpose ------------------------------------------------------------------------------

StridedCopy transpose_copy(const KernelRequest& request) {
  const TensorType& x = request.inputs[0];
  const auto from = strides_of(x.shape);
  const auto to = strides_of(request.outputs[0].shape);
  std::vector<Axis> axes;
  for (const int axis : request.attributes.as<ops::TransposeAttributes>().permutation) {
    axes.push_back({x.shape[axis], from[static_cast<std::size_t>(axis)], to[axes.size()]});
  }
  return make_copy(axes, 0, 0, size_of(x.dtype));
}

constexpr int kTile = 32;
constexpr int kTileRows = 8;  // threads of a block down a tile

/// Matrices to be transposed: one for each position along the other axes.
struct Matrices {
  StridedCopy others;
  std::int64_t rows, columns;       ///< of the result
  std::int64_t from_step, to_step;  ///< from one column (row) to the next in the source (result)
  std::int64_t tiles_down, tiles_across;
};

/// Tiles go through shared memory, so that both sides are read and written along their rows.
template <class Word>
__global__ void transpose_tiles(Matrices m, const Word* x, Word* y) {
  DEMI_SHARED(Word, tile, [kTile][kTile + 1]);
  const int across = static_cast<int>(threadIdx.x) % kTile;
  const int down = static_cast<int>(threadIdx.x) / kTile;
  const std::int64_t per_matrix = m.tiles_down * m.tiles_across;
  const std::int64_t tasks = m.others.count * per_matrix;
  for (std::int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const Offsets base = offsets_of(m.others, task / per_matrix);
    const std::int64_t number = task % per_matrix;
    const std::int64_t row = number / m.tiles_across * kTile;
    const std::int64_t column = number % m.tiles_across * kTile;
    __syncthreads();  // the tile before has been written
    for (int j = down; j < kTile; j += kTileRows) {
      if (row + across < m.rows && column + j < m.columns) {
        tile[j][across] = x[base.from + (row + across) + (column + j) * m.from_step];
      }
    }
    __syncthreads();
    for (int i = down; i < kTile; i += kTileRows) {
      if (row + i < m.rows && column + across < m.columns) {
        y[base.to + (row + i) * m.to_step + (column + across)] = tile[across][i];
      }
    }
  }
}

std::unique_ptr<Kernel> make_transpose_tiles(const KernelRequest& request, Context& context,
                                             std::string& reason) {
  const StridedCopy copy = transpose_copy(request);
  const int last = copy.rank - 1;
  if (copy.rank < 2 || copy.from_stride[last] == 1) {
    reason = "the innermost axis stays innermost";
    return nullptr;
  }
  Matrices m = {};
  m.columns = copy.extent[last];
  m.from_step = copy.from_stride[last];
  m.others.narrow = copy.narrow;
  for (int axis = 0; axis < last; ++axis) {
    if (copy.from_stride[axis] == 1) {
      m.rows = copy.extent[axis];
      m.to_step = copy.to_stride[axis];
      continue;
    }
    m.others.extent[m.others.rank] = copy.extent[axis];
    m.others.from_stride[m.others.rank] = copy.from_stride[axis];
    m.others.to_stride[m.others.rank] = copy.to_stride[axis];
    m.others.count *= copy.extent[axis];
    ++m.others.rank;
  }
  m.tiles_down = (m.rows + kTile - 1) / kTile;
  m.tiles_across = (m.columns + kTile - 1) / kTile;
  return make_kernel("tiles", 0, [m, word = copy.word, &context](const KernelArguments& a) {
    dispatch_word(word, [&](auto tag) {
      using Word = typename decltype(tag)::type;
      launch(&transpose_tiles<Word>, blocks_for(m.others.count * m.tiles_down * m.tiles_across, 1),
             kTile * kTileRows, 0, context.stream(), m, a.input<Word>(0), a.output<Word>(0));
    });
  });
}

std::unique_ptr<Kernel> make_transpose_words(const KernelRequest& request, Context& context,
                                             std::string&) {
  return make_copy_kernel(transpose_copy(request), context);
}

// ---- concatenate ----------------------------------------------------------------------------

std::unique_ptr<Kernel> make_concatenate(const KernelRequest& request, Context& context,
                                         std::string&) {
  struct Piece {
    StridedCopy copy;
    DType dtype;
  };
  const TensorType& y = request.outputs[0];
  const int joined =
      y.shape.normalize_axis(request.attributes.as<ops::ConcatenateAttributes>().axis);
  const auto to = strides_of(y.shape);
  std::vector<Piece> pieces;
  std::int64_t begin = 0;
  for (const TensorType& x : request.inputs) {
    const auto from = strides_of(x.shape);
    std::vector<Axis> axes;
    for (int axis = 0; axis < x.shape.rank(); ++axis) {
      const auto k = static_cast<std::size_t>(axis);
      axes.push_back({x.shape[axis], from[k], to[k]});
    }
    const std::int64_t offset = begin * to[static_cast<std::size_t>(joined)];
    // What is converted is copied element by element.
    StridedCopy copy = make_copy(axes, 0, offset, x.dtype == y.dtype ? size_of(y.dtype) : 16);
    pieces.push_back({copy, x.dtype});
    begin += x.shape[joined];
  }
  const auto body = [pieces, dtype = y.dtype, &context](const KernelArguments& a) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Piece& piece = pieces[i];
      if (piece.dtype == dtype) {
        launch_copy(piece.copy, a.inputs[i], a.outputs[0], context);
        continue;
      }
      const auto kernel =
          is_floating(piece.dtype) ? &copy_converted<double> : &copy_converted<std::int64_t>;
      launch(kernel, elementwise_blocks(piece.copy.count, context), kElementwiseThreads, 0,
             context.stream(), piece.copy, AnyInput{a.inputs[i], piece.dtype},
             AnyOutput{a.outputs[0], dtype});
    }
  };
  return make_kernel("words", 0, body, static_cast<int>(pieces.size()));
}

// ---- slice and pad_slice --------------------------------------------------------------------

/// Copies a box at `begin` of an array of shape `full` from there to a tensor of its own, or, with
/// `back`, the other way.
StridedCopy box_copy(const Shape& full, const std::vector<std::int64_t>& begin, const Shape& part,
                     std::size_t size, bool back) {
  const auto in_full = strides_of(full);
  const auto in_part = strides_of(part);
  std::vector<Axis> axes;
  std::int64_t offset = 0;
  for (int axis = 0; axis < full.rank(); ++axis) {
    const auto k = static_cast<std::size_t>(axis);
    offset += begin[k] * in_full[k];
    axes.push_back(back ? Axis{part[axis], in_part[k], in_full[k]}
                        : Axis{part[axis], in_full[k], in_part[k]});
  }
  return make_copy(axes, back ? 0 : offset, back ? offset : 0, size);
}

std::unique_ptr<Kernel> make_slice(const KernelRequest& request, Context& context, std::string&) {
  const TensorType& x = request.inputs[0];
  const auto& begin = request.attributes.as<ops::SliceAttributes>().begin;
  return make_copy_kernel(
      box_copy(x.shape, begin, request.outputs[0].shape, size_of(x.dtype), false), context);
}

std::unique_ptr<Kernel> make_pad_slice(const KernelRequest& request, Context& context,
                                       std::string&) {
  const TensorType& dx = request.outputs[0];
  const auto& begin = request.attributes.as<ops::SliceAttributes>().begin;
  const StridedCopy copy =
      box_copy(dx.shape, begin, request.inputs[0].shape, size_of(dx.dtype), true);
  const auto body = [copy, bytes = dx.bytes(), &context](const KernelArguments& a) {
    if (bytes == 0) return;
    DEMI_CUDA_CHECK(cudaMemsetAsync(a.outputs[0], 0, bytes, context.stream()));
    launch_copy(copy, a.inputs[0], a.outputs[0], context);
  };
  return make_kernel("zeros_and_words", 0, body, 2);
}

}  // namespace

void register_movement_kernels(Registry& registry) {
  registry.add("transpose", "tiles", make_transpose_tiles);
  registry.add("transpose", "words", make_transpose_words);
  registry.add("concatenate", "words", make_concatenate);
  registry.add("slice", "words", make_slice);
  registry.add("pad_slice", "zeros_and_words", make_pad_slice);
}

}  // namespace demi::cuda
