// IDX files: the format of MNIST and its successors.
//
// Layout, numbers big-endian: two zero bytes, one byte for the element type (8 = unsigned byte),
// one for the number of dimensions, a 32-bit extent for each, then the elements, the last dimension
// fastest. (Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits".)
#pragma once

#include <filesystem>

#include <demi/tensor.h>

namespace demi::io {

/// A uint8 tensor of the file's shape; the file may be compressed by gzip. Throws
/// std::runtime_error if it cannot be read and std::invalid_argument, with the path, what was
/// expected and what came, if it is not a complete IDX file of unsigned bytes.
[[nodiscard]] Tensor read_idx(const std::filesystem::path& path);

}  // namespace demi::io
