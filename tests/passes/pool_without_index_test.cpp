// Max-poolings that give no index, in the fuse pass.
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <demi/ops/pooling.h>

#include "src/ir/graph.h"
#include "src/passes/passes.h"

namespace demi::passes {
namespace {

constexpr Capabilities kWithoutIndex = {.max_pool_without_index = true};
constexpr Capabilities kFromImage = {.max_pool_without_index = true,
                                     .max_pool_gradient_from_image = true};

/// y = max_pool2d(x) and, if wanted, d y / d x, or the index.
class Pooling {
 public:
  enum class Wanted { kMaximum, kIndex, kGradient };

  explicit Pooling(Wanted wanted) {
    const ir::TraceScope trace(graph_);
    const SymbolicTensor x = graph_->tensor(graph_->add_input("x", {{2, 4, 4, 3}, float32}));
    const auto [y, index] = ops::max_pool2d(x);
    graph_->add_output("y", y.value());
    if (wanted == Wanted::kIndex) graph_->add_output("index", index.value());
    if (wanted != Wanted::kGradient) return;
    const SymbolicTensor dy = graph_->tensor(graph_->add_input("dy", {{2, 2, 2, 3}, float32}));
    graph_->add_output("dx", differentiate(*graph_, {{y, dy}}, {x})[0].value());
  }

  /// The text of a node of the op after fusing.
  [[nodiscard]] std::string fused(const Capabilities& capabilities, const std::string& op) {
    fuse(*graph_, capabilities);
    ir::verify(*graph_);
    const std::string text = ir::to_string(*graph_);
    const std::size_t at = text.find("= " + op + "(");
    const std::size_t begin = at == std::string::npos ? at : text.rfind('\n', at) + 1;
    return at == std::string::npos ? "" : text.substr(begin, text.find('\n', at) - begin);
  }

 private:
  std::shared_ptr<ir::Graph> graph_ = ir::Graph::create();
};

bool has_no_index(const std::string& line) {
  return line.find("from_image") != std::string::npos && line.find("uint8") == std::string::npos;
}

using Wanted = Pooling::Wanted;

TEST(PoolWithoutIndex, WhereNothingReadsIt) {
  const std::string line = Pooling(Wanted::kMaximum).fused(kWithoutIndex, "max_pool2d");
  EXPECT_TRUE(has_no_index(line)) << line;
}

TEST(PoolWithoutIndex, NotWhereItIsAResult) {
  const std::string line = Pooling(Wanted::kIndex).fused(kFromImage, "max_pool2d");
  EXPECT_FALSE(has_no_index(line)) << line;
}

TEST(PoolWithoutIndex, WithAGradientOnlyWhereThatIsTakenFromTheImage) {
  EXPECT_FALSE(has_no_index(Pooling(Wanted::kGradient).fused(kWithoutIndex, "max_pool2d")));
  EXPECT_TRUE(has_no_index(Pooling(Wanted::kGradient).fused(kFromImage, "max_pool2d")));
  const std::string backward = Pooling(Wanted::kGradient).fused(kFromImage, "max_pool2d_backward");
  EXPECT_TRUE(has_no_index(backward)) << backward;
}

TEST(PoolWithoutIndex, NotWithoutTheCapability) {
  EXPECT_FALSE(has_no_index(Pooling(Wanted::kMaximum).fused({}, "max_pool2d")));
}

}  // namespace
}  // namespace demi::passes
