#include "src/plan/memory_planner.h"

#include <random>

#include <gtest/gtest.h>

namespace demi::plan {
namespace {

void expect_disjoint(const std::vector<Lifetime>& buffers, const Assignment& assignment) {
  for (std::size_t a = 0; a < buffers.size(); ++a) {
    EXPECT_EQ(assignment.offsets[a] % kAlignment, 0u);
    EXPECT_LE(assignment.offsets[a] + buffers[a].bytes, assignment.total_bytes);
    for (std::size_t b = a + 1; b < buffers.size(); ++b) {
      const bool alive_together =
          buffers[a].first <= buffers[b].last && buffers[b].first <= buffers[a].last;
      const bool overlap = assignment.offsets[a] < assignment.offsets[b] + buffers[b].bytes &&
                           assignment.offsets[b] < assignment.offsets[a] + buffers[a].bytes;
      EXPECT_FALSE(alive_together && overlap) << "buffers " << a << " and " << b;
    }
  }
}

TEST(MemoryPlanner, GivesBuffersThatFollowEachOtherTheSamePlace) {
  const std::vector<Lifetime> buffers = {{100, 0, 1}, {100, 2, 3}, {100, 4, 5}};
  EXPECT_EQ(assign_offsets(buffers).total_bytes, 128u);
}

TEST(MemoryPlanner, KeepsBuffersApartWhoseLivesTouch) {
  const std::vector<Lifetime> buffers = {{64, 0, 2}, {64, 2, 3}};
  const Assignment assignment = assign_offsets(buffers);
  EXPECT_EQ(assignment.total_bytes, 128u);
  expect_disjoint(buffers, assignment);
}

TEST(MemoryPlanner, FillsTheSmallestGapThatFits) {
  // 256 and 192 bytes die at step 1 below and between two that live on; 128 fits both gaps.
  const std::vector<Lifetime> buffers = {
      {1024, 0, 9}, {256, 0, 1}, {512, 0, 9}, {192, 0, 1}, {128, 2, 3}};
  const Assignment assignment = assign_offsets(buffers);
  expect_disjoint(buffers, assignment);
  EXPECT_EQ(assignment.total_bytes, 1024u + 256 + 512 + 192);
}

TEST(MemoryPlanner, GivesEmptyBuffersNoPlace) {
  EXPECT_EQ(assign_offsets({{0, 0, 5}, {64, 0, 5}}).total_bytes, 64u);
  EXPECT_EQ(assign_offsets({}).total_bytes, 0u);
}

TEST(MemoryPlanner, NeverOverlapsLiveBuffersAndStaysNearThePeak) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> buffers;
    const int count = 1 + static_cast<int>(random() % 60);
    for (int i = 0; i < count; ++i) {
      const int first = static_cast<int>(random() % 40);
      buffers.push_back({random() % 5000, first, first + static_cast<int>(random() % 12)});
    }
    const Assignment assignment = assign_offsets(buffers);
    expect_disjoint(buffers, assignment);
    EXPECT_GE(assignment.total_bytes, peak_live_bytes(buffers));
    EXPECT_LE(assignment.total_bytes, peak_live_bytes(buffers) * 3 / 2 + 4096);
  }
}

TEST(MemoryPlanner, PeakCountsEveryBufferOfItsBusiestStep) {
  EXPECT_EQ(peak_live_bytes({{64, 0, 1}, {64, 1, 2}, {64, 2, 3}}), 128u);
}

}  // namespace
}  // namespace demi::plan
