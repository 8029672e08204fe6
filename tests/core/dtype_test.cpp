#include "core/base/dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/complaint.h"

namespace shardscope {
namespace {

TEST(Dtype, NamesReadBackInEverySpelling) {
  for (const Dtype dtype :
       {Dtype::float64, Dtype::float32, Dtype::float16, Dtype::bfloat16, Dtype::int64, Dtype::int32,
        Dtype::int16, Dtype::int8, Dtype::uint8, Dtype::boolean, Dtype::uint64}) {
    EXPECT_EQ(parse_dtype(name_of(dtype), ""), dtype);
    EXPECT_EQ(parse_dtype("torch." + std::string(name_of(dtype)), ""), dtype);
    EXPECT_EQ(parse_dtype(safetensors_name_of(dtype), ""), dtype);
  }
}

TEST(Dtype, SizesOfTheUsualOnes) {
  EXPECT_EQ(size_of(Dtype::float32), 4_B);
  EXPECT_EQ(size_of(Dtype::bfloat16), 2_B);
  EXPECT_EQ(bytes_of(10, Dtype::int64), 80_B);
}

TEST(Dtype, AnUnknownOneIsNamed) {
  EXPECT_THAT(complaint_of([] { parse_dtype("float8", "config.json:3: dtype"); }),
              testing::HasSubstr(
                  "config.json:3: dtype: \"float8\" is no dtype known here; known are float64"));
}

}  // namespace
}  // namespace shardscope
