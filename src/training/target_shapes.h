// What losses and metrics do to y_true before they compare it with y_pred.
#pragma once

#include <demi/symbolic_tensor.h>

namespace demi::internal {

/// y_true in y_pred's shape and dtype. A missing or additional last axis of extent 1 is put right;
/// anything else that differs throws std::invalid_argument "[where] …" instead of broadcasting:
/// [n] against [n, 1] would silently become [n, n].
[[nodiscard]] SymbolicTensor match_targets(const SymbolicTensor& y_true,
                                           const SymbolicTensor& y_pred, const char* where);

/// Integer labels of y_pred's shape without its last axis. Throws std::invalid_argument "[where] …"
/// for other shapes and for floating labels.
[[nodiscard]] SymbolicTensor match_labels(const SymbolicTensor& y_true,
                                          const SymbolicTensor& y_pred, const char* where);

/// Whether two shapes agree where both extents are known.
[[nodiscard]] bool compatible(const Shape& a, const Shape& b);

}  // namespace demi::internal
