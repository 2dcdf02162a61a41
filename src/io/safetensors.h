// safetensors: named tensors in one file.
//
// Layout: the length of the header as a 64-bit little-endian number; the header, a JSON object that
// maps each name to {"dtype", "shape", "data_offsets": [begin, end)}, and optionally "__metadata__"
// to an object of strings, padded with spaces to a multiple of 8 bytes; the elements, row-major and
// little-endian, one tensor right after another, in which the offsets count.
// (Specification: github.com/huggingface/safetensors, "Format".)
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <demi/tensor.h>

namespace demi::io {

using TensorMap = std::map<std::string, Tensor>;
using Metadata = std::map<std::string, std::string>;

struct SafetensorsFile {
  TensorMap tensors;
  Metadata metadata;
};

/// Writes through an AtomicFile: at `path` stands the complete new file, or what stood there
/// before. Equal arguments give equal bytes. Throws std::runtime_error if it cannot be written,
/// std::invalid_argument for a name that is "__metadata__" or not UTF-8.
void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                       const Metadata& metadata = {});

/// Throws std::runtime_error if the file cannot be read, std::invalid_argument, with the path, what
/// was expected and what came, if it is not a valid safetensors file: offsets that overlap, leave
/// gaps, disagree with shape and dtype or with the length of the file, repeated names, a dtype
/// other than F64 F32 F16 BF16 I64 I32 U8 BOOL.
[[nodiscard]] SafetensorsFile read_safetensors(const std::filesystem::path& path);

}  // namespace demi::io
