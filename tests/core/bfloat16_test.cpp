#include "core/base/bfloat16.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace shardscope {
namespace {

float rounded(float value) { return to_float(to_bfloat16(value)); }

TEST(Bfloat16, RoundsToTheNearestTiesToEven) {
  // Above 1, numbers lie 2^-7 apart.
  EXPECT_EQ(rounded(1.0f), 1.0f);
  EXPECT_EQ(rounded(1.0f + 0x1p-8f), 1.0f);                // half-way, 1 is even
  EXPECT_EQ(rounded(1.0f + 3 * 0x1p-8f), 1.0f + 0x1p-6f);  // half-way, 1 + 2 * 2^-7 is even
  EXPECT_EQ(rounded(1.0f + 0x1.1p-8f), 1.0f + 0x1p-7f);
  EXPECT_EQ(rounded(-1.0f - 0x1.1p-8f), -1.0f - 0x1p-7f);
}

TEST(Bfloat16, KeepsWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(rounded(infinity), infinity);
  EXPECT_EQ(rounded(-infinity), -infinity);
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), infinity);
  EXPECT_TRUE(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
  // A NaN whose payload lies in the lower half only must not become infinite.
  EXPECT_TRUE(std::isnan(rounded(std::bit_cast<float>(0x7F800001u))));
}

}  // namespace
}  // namespace shardscope
