// Small memory that was let go of is handed out again, and is whole, whichever thread took it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "backend/executor/allocation_counter.h"

namespace shardscope {
namespace {

struct Piece {
  std::unique_ptr<unsigned char[]> memory;
  std::size_t bytes = 0;
  unsigned char filled = 0;

  bool is_whole() const {
    return std::all_of(memory.get(), memory.get() + bytes,
                       [&](unsigned char byte) { return byte == filled; });
  }
};

/// Sizes on both sides of each step of 16 bytes, and past the largest that is kept (1,032).
std::vector<Piece> pieces(unsigned char filled) {
  std::vector<Piece> all;
  for (int times = 0; times < 20; ++times)
    for (std::size_t bytes = 1; bytes < 1200; ++bytes) {
      Piece piece{std::make_unique<unsigned char[]>(bytes), bytes, filled};
      std::memset(piece.memory.get(), filled, bytes);
      all.push_back(std::move(piece));
    }
  return all;
}

TEST(KeptBlocks, AreWholeWhenTheyAreTakenAgain) {
  std::vector<Piece> first = pieces(1);
  for (std::size_t i = 0; i < first.size(); i += 2) first[i].memory.reset();
  const std::vector<Piece> second = pieces(2);
  for (std::size_t i = 1; i < first.size(); i += 2) EXPECT_TRUE(first[i].is_whole());
  for (const Piece& piece : second) EXPECT_TRUE(piece.is_whole());
}

TEST(KeptBlocks, GoFromThreadToThread) {
  std::vector<Piece> of_other;
  std::thread([&] { of_other = pieces(3); }).join();
  const std::vector<Piece> mine = pieces(4);
  for (const Piece& piece : of_other) EXPECT_TRUE(piece.is_whole());
  std::thread([taken = std::move(of_other)]() mutable { taken.clear(); }).join();
  const std::vector<Piece> more = pieces(5);
  for (const Piece& piece : mine) EXPECT_TRUE(piece.is_whole());
  for (const Piece& piece : more) EXPECT_TRUE(piece.is_whole());
}

// Without a size, as C++ code deletes that knows only the base class.
TEST(KeptBlocks, AreKeptBySizeWhoeverLetsThemGo) {
  std::vector<void*> memory;
  for (std::size_t bytes = 1; bytes < 1200; ++bytes) memory.push_back(::operator new(bytes));
  for (void* block : memory) ::operator delete(block);
  for (const Piece& piece : pieces(6)) EXPECT_TRUE(piece.is_whole());
}

TEST(KeptBlocks, CountAsAllocations) {
  if (!can_count_allocations()) GTEST_SKIP() << "allocations cannot be seen in this build";
  std::make_unique<unsigned char[]>(100).reset();
  AllocationCounts counts;
  std::unique_ptr<unsigned char[]> taken;
  {
    const CountAllocations counting(counts);
    taken = std::make_unique<unsigned char[]>(100);
  }
  EXPECT_EQ(counts.ours, 1);
  EXPECT_EQ(counts.ours_bytes, 100);
}

}  // namespace
}  // namespace shardscope
