// The table that Model::summary prints.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "src/training/model_impl.h"

namespace demi {

/// Bytes that a training step keeps of each layer, by layer path, and for which batch size.
struct ActivationBytes {
  std::int64_t batch_size = 0;
  std::map<std::string, std::size_t> by_layer = {};
};

/// Keras' table with the dtype of each result and, if given, the bytes of activations; below it the
/// numbers of parameters.
[[nodiscard]] std::string format_summary(const ModelImpl& model,
                                         const std::optional<ActivationBytes>& activations);

}  // namespace demi
