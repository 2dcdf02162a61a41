#include <demi/shape.h>

#include <sstream>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace demi {
namespace {

using demi::testing::message_of;
using std::invalid_argument;

TEST(Shape, ScalarHasOneElement) {
  const Shape scalar;
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(scalar.elements(), 1);
  EXPECT_EQ(scalar.to_string(), "[]");
}

TEST(Shape, HoldsItsExtents) {
  const Shape shape{32, 28, 28, 1};
  EXPECT_EQ(shape.rank(), 4);
  EXPECT_EQ(shape[0], 32);
  EXPECT_EQ(shape[-1], 1);
  EXPECT_EQ(shape[-4], 32);
  EXPECT_EQ(shape.elements(), 32 * 28 * 28);
  EXPECT_EQ(shape.to_string(), "[32, 28, 28, 1]");
  EXPECT_EQ(Shape(std::vector<std::int64_t>{2, 3}), (Shape{2, 3}));
  std::ostringstream out;
  out << shape;
  EXPECT_EQ(out.str(), "[32, 28, 28, 1]");
}

TEST(Shape, ComparesRankAndExtents) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 4}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 0}));
  EXPECT_NE(Shape{}, Shape{0});
}

TEST(Shape, ShowsUnknownExtentsAsNone) {
  const Shape shape{Shape::kUnknown, 10};
  EXPECT_FALSE(shape.is_known());
  EXPECT_EQ(shape.to_string(), "[None, 10]");
  EXPECT_EQ(message_of<invalid_argument>([&] { static_cast<void>(shape.elements()); }),
            "[shape] expected known extents. Received: [None, 10].");
}

TEST(Shape, RefusesNineDimensionsAndNegativeExtents) {
  EXPECT_EQ((Shape{1, 1, 1, 1, 1, 1, 1, 2}).rank(), 8);
  EXPECT_EQ(message_of<invalid_argument>([] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }),
            "[shape] expected at most 8 dimensions. Received: 9 in [1, 1, 1, 1, 1, 1, 1, 1, 1].");
  EXPECT_EQ(message_of<invalid_argument>([] {
              Shape{4, -2};
            }),
            "[shape] expected extents >= 0, or -1 for an unknown one. Received: [4, -2].");
}

TEST(Shape, RefusesAnAxisOutOfRange) {
  const Shape shape{3, 4};
  EXPECT_EQ(shape.normalize_axis(-2), 0);
  EXPECT_EQ(shape.normalize_axis(1), 1);
  EXPECT_EQ(message_of<invalid_argument>([&] { static_cast<void>(shape[2]); }),
            "[shape] expected an axis in [-2, 1] for shape [3, 4]. Received: 2.");
  EXPECT_EQ(message_of<invalid_argument>([&] { static_cast<void>(shape.normalize_axis(-3)); }),
            "[shape] expected an axis in [-2, 1] for shape [3, 4]. Received: -3.");
  EXPECT_EQ(message_of<invalid_argument>([] { static_cast<void>(Shape{}[0]); }),
            "[shape] expected no axis, for a scalar. Received: 0.");
}

TEST(Shape, SetsAnExtent) {
  Shape shape{3, 4};
  shape.set(-1, 7);
  EXPECT_EQ(shape, (Shape{3, 7}));
  EXPECT_EQ(message_of<invalid_argument>([&] { shape.set(0, -5); }),
            "[shape] expected extents >= 0, or -1 for an unknown one. Received: -5.");
  EXPECT_EQ(shape, (Shape{3, 7}));
}

TEST(Shape, CountsElementsWithoutOverflow) {
  const std::int64_t big = std::int64_t{1} << 40;
  EXPECT_EQ((Shape{big, 0, big}).elements(), 0);
  EXPECT_EQ(message_of<invalid_argument>([&] {
              static_cast<void>(Shape{big, big}.elements());
            }),
            "[shape] expected fewer than 2^63 elements. Received: [1099511627776, 1099511627776].");
}

TEST(Shape, AddsAndDropsTheFront) {
  EXPECT_EQ((Shape{3, 4}).with_front(2), (Shape{2, 3, 4}));
  EXPECT_EQ((Shape{2, 3, 4}).without_front(), (Shape{3, 4}));
  EXPECT_EQ(Shape{5}.without_front(), Shape{});
  EXPECT_EQ(message_of<invalid_argument>([] { static_cast<void>(Shape{}.without_front()); }),
            "[shape] expected at least one dimension to drop. Received: [].");
  EXPECT_THROW(static_cast<void>(Shape{1, 1, 1, 1, 1, 1, 1, 1}.with_front(1)),
               std::invalid_argument);
}

TEST(Broadcast, StretchesOnesAndMissingDimensions) {
  EXPECT_EQ(broadcast({2, 3}, {2, 3}, "add"), (Shape{2, 3}));
  EXPECT_EQ(broadcast({2, 1}, {1, 3}, "add"), (Shape{2, 3}));
  EXPECT_EQ(broadcast({3}, {2, 1}, "add"), (Shape{2, 3}));
  EXPECT_EQ(broadcast({}, {4, 5}, "add"), (Shape{4, 5}));
  EXPECT_EQ(broadcast({4, 1, 6}, {5, 1}, "add"), (Shape{4, 5, 6}));
  EXPECT_EQ(broadcast({0}, {1}, "add"), (Shape{0}));
}

TEST(Broadcast, KnownExtentsWinOverUnknownOnes) {
  const std::int64_t none = Shape::kUnknown;
  EXPECT_EQ(broadcast({none, 3}, {1, 3}, "add"), (Shape{none, 3}));
  EXPECT_EQ(broadcast({1, 3}, {none, 3}, "add"), (Shape{none, 3}));
  EXPECT_EQ(broadcast({none, 3}, {8, 3}, "add"), (Shape{8, 3}));
  EXPECT_EQ(broadcast({8, 3}, {none, 3}, "add"), (Shape{8, 3}));
  EXPECT_EQ(broadcast({none}, {none}, "add"), (Shape{none}));
}

TEST(Broadcast, NamesTheCallerAndBothShapes) {
  EXPECT_EQ(message_of<invalid_argument>([] {
              static_cast<void>(broadcast({2, 3}, {4, 3}, "multiply"));
            }),
            "[multiply] expected shapes that broadcast: extents equal or 1, counted from the last. "
            "Received: [2, 3] and [4, 3].");
}

}  // namespace
}  // namespace demi
