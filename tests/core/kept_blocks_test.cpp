#include "core/base/kept_blocks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

namespace shardscope {
namespace {

bool can_keep() {
  void* block = std::malloc(40);
  if (keep_block(block)) return take_kept_block(40) == block;
  std::free(block);
  return false;
}

class KeptBlocks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_keep()) GTEST_SKIP() << "malloc is not glibc's";
  }
};

// glibc gives 104 bytes to who asks for 100, and 120 to who asks for 105.
TEST_F(KeptBlocks, AreForRequestsOfTheirSize) {
  void* block = std::malloc(100);
  const std::size_t before = kept_bytes();
  ASSERT_TRUE(keep_block(block));
  EXPECT_EQ(kept_bytes(), before + 104);
  EXPECT_EQ(take_kept_block(105), nullptr);
  EXPECT_EQ(take_kept_block(88), nullptr);
  EXPECT_EQ(take_kept_block(104), block);
  EXPECT_EQ(kept_bytes(), before);
  EXPECT_EQ(take_kept_block(104), nullptr);
  std::free(block);
}

TEST_F(KeptBlocks, AreSmall) {
  void* block = std::malloc(2000);
  EXPECT_FALSE(keep_block(block));
  std::free(block);
}

TEST_F(KeptBlocks, AreLeftToTheNextThread) {
  void* block = std::malloc(500);
  void* found = nullptr;
  std::thread([&] { EXPECT_TRUE(keep_block(block)); }).join();
  std::thread([&] { found = take_kept_block(500); }).join();
  EXPECT_EQ(found, block);
  std::free(block);
}

// 34,200 blocks of 984 bytes are 33.7 MB, and 32 MiB are 33.6 MB.
TEST_F(KeptBlocks, AreNoMoreThanTheLimit) {
  std::vector<void*> refused;
  std::thread([&] {
    for (int i = 0; i < 34'200; ++i)
      if (void* block = std::malloc(984); !keep_block(block)) refused.push_back(block);
    EXPECT_LE(kept_bytes(), most_kept_bytes);
    EXPECT_GT(kept_bytes(), most_kept_bytes - 2000);
    while (void* block = take_kept_block(984)) std::free(block);
  }).join();
  EXPECT_GE(refused.size(), 34'200 - most_kept_bytes / 984);
  for (void* block : refused) std::free(block);
}

}  // namespace
}  // namespace shardscope
