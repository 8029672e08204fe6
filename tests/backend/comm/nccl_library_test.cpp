// NCCL itself, as far as it goes without a GPU.
#include "backend/comm/nccl_library.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

namespace shardscope {
namespace {

// The program is built with the header of one version and loads whatever is there: of the same
// major version, with every function that we call.
TEST(NcclLibrary, IsLoadedWithEveryFunctionThatWeCall) {
  EXPECT_NE(nccl().all_gather, nullptr);
  EXPECT_TRUE(nccl_version_text().starts_with(fmt::format("{}.", NCCL_MAJOR)))
      << nccl_version_text();
}

TEST(NcclLibrary, MakesUniqueIdsWithoutAGpu) {
  ncclUniqueId first{}, second{};
  ASSERT_EQ(nccl().get_unique_id(&first), ncclSuccess);
  ASSERT_EQ(nccl().get_unique_id(&second), ncclSuccess);
  EXPECT_NE(std::memcmp(&first, &second, sizeof first), 0);
}

}  // namespace
}  // namespace shardscope
