#include "traces/import/decimal_time.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

std::int64_t ns_of(std::string_view text) { return microseconds_to_ns(text).value().ns; }

TEST(DecimalTime, KeepsNanosecondsThatADoubleWouldLose) {
  EXPECT_EQ(ns_of("1790857026123456.789"), 1790857026123456789);
  EXPECT_EQ(ns_of("1790857026123456"), 1790857026123456000);
}

TEST(DecimalTime, ReadsFewerDigitsThanThree) {
  EXPECT_EQ(ns_of("12.5"), 12500);
  EXPECT_EQ(ns_of("0.07"), 70);
  EXPECT_EQ(ns_of("-3.001"), -3001);
}

TEST(DecimalTime, RoundsFinerTimesHalfToEven) {
  EXPECT_EQ(ns_of("0.0125"), 12);
  EXPECT_EQ(ns_of("0.0135"), 14);
  EXPECT_EQ(ns_of("0.01250001"), 13);
  EXPECT_TRUE(microseconds_to_ns("0.0125")->is_rounded);
  EXPECT_FALSE(microseconds_to_ns("0.0120")->is_rounded);
}

TEST(DecimalTime, UnderstandsExponents) {
  EXPECT_EQ(ns_of("1.5e3"), 1500000);
  EXPECT_EQ(ns_of("2E-2"), 20);
  EXPECT_EQ(ns_of("1e-9"), 0);
}

TEST(DecimalTime, RefusesWhatIsNoTime) {
  for (const char* text : {"", "-", "NaN", "Infinity", "null", "1.2.3", "1e", "1e400", "9e18",
                           "99999999999999999999", "12x"})
    EXPECT_FALSE(microseconds_to_ns(text)) << text;
}

}  // namespace
}  // namespace shardscope
