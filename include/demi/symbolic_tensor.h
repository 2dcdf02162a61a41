// SymbolicTensor: a value of a graph that is being written down; it has a type but no data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <demi/dtype.h>
#include <demi/shape.h>

namespace demi {

namespace ir {
class Graph;
}

/// Cheap to copy. Produced by demi::Input, by layers and by the functions of demi::ops; the graph
/// lives as long as any of its values. A default-constructed one stands for "no value".
class SymbolicTensor {
 public:
  SymbolicTensor() = default;
  SymbolicTensor(std::shared_ptr<ir::Graph> graph, std::int32_t value)
      : graph_(std::move(graph)), value_(value) {}

  [[nodiscard]] explicit operator bool() const { return graph_ != nullptr; }

  /// Shape; the batch dimension is unknown until a model is compiled for a batch size.
  [[nodiscard]] const Shape& shape() const;
  [[nodiscard]] DType dtype() const;

  /// The graph and the value's index in it (for the compiler).
  [[nodiscard]] const std::shared_ptr<ir::Graph>& graph() const { return graph_; }
  [[nodiscard]] std::int32_t value() const { return value_; }

  friend bool operator==(const SymbolicTensor& a, const SymbolicTensor& b) {
    return a.graph_ == b.graph_ && a.value_ == b.value_;
  }

 private:
  std::shared_ptr<ir::Graph> graph_;
  std::int32_t value_ = -1;
};

}  // namespace demi
