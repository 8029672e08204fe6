#include "core/base/quantities.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/clock_and_power.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

template <class Parse>
std::string complaint(Parse parse, std::string_view text) {
  try {
    parse(text, "sim.memory");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  return "no complaint";
}

TEST(ParseBytes, BinaryAndDecimalPrefixesDiffer) {
  EXPECT_EQ(parse_bytes("80 GiB", ""), Bytes{85'899'345'920});  // 80 * 2^30
  EXPECT_EQ(parse_bytes("80 GB", ""), Bytes{80'000'000'000});
  EXPECT_EQ(parse_bytes("3kB", ""), Bytes{3000});
  EXPECT_EQ(parse_bytes("3 KiB", ""), Bytes{3072});
  EXPECT_EQ(parse_bytes(" 512 B ", ""), Bytes{512});
}

TEST(ParseBytes, FractionsAreExact) {
  EXPECT_EQ(parse_bytes("1.5 GiB", ""), Bytes{1'610'612'736});  // 3 * 2^29
  EXPECT_EQ(parse_bytes("0.1 MB", ""), Bytes{100'000});         // 0.1 has no exact double
  EXPECT_EQ(parse_bytes("2.5e3 B", ""), Bytes{2500});
}

TEST(ParseBytes, TheLargestInt64IsTheLimit) {
  EXPECT_EQ(parse_bytes("8191 PiB", ""), Bytes{8191LL << 50});
  EXPECT_THAT(complaint(parse_bytes, "8192 PiB"), testing::HasSubstr("is too large"));  // 2^63
  EXPECT_THAT(complaint(parse_bytes, "1e300 B"), testing::HasSubstr("is too large"));
  EXPECT_THAT(complaint(parse_bytes, "1e99999999999 B"), testing::HasSubstr("too large"));
  EXPECT_THAT(complaint(parse_bytes, fmt::format("{:9<100} B", "")),
              testing::HasSubstr("too many digits"));
}

TEST(ParseBytes, ABareNumberIsRefusedWithTheWayOut) {
  EXPECT_EQ(complaint(parse_bytes, "80"),
            "sim.memory: \"80\" has no unit; add a unit, for example \"80 GiB\"");
}

TEST(ParseFrequency, AndPowerHaveUnits) {
  EXPECT_EQ(parse_frequency("1.98 GHz", "").hertz, 1.98e9);
  EXPECT_EQ(parse_power("700 W", "").watts, 700);
  EXPECT_THAT(complaint(parse_frequency, "1980"), testing::HasSubstr("for example \"1980 MHz\""));
  EXPECT_THAT(complaint(parse_power, "0 W"), testing::HasSubstr("is not positive"));
  EXPECT_EQ(exact_text(Frequency{1.98e9}), "1.98 GHz");
  EXPECT_EQ(exact_text(Power{1200}), "1.2 kW");
}

TEST(ParseBandwidth, AMistypedUnitNamesTheNearest) {
  EXPECT_THAT(complaint(parse_bandwidth, "200 Gbits/s"),
              testing::HasSubstr("did you mean \"Gbit/s\"? known are B/s"));
}

TEST(ParseBytes, HostileTextIsRefused) {
  EXPECT_THAT(complaint(parse_bytes, ""), testing::HasSubstr("does not start with a number"));
  EXPECT_THAT(complaint(parse_bytes, "GiB"), testing::HasSubstr("does not start with a number"));
  EXPECT_THAT(complaint(parse_bytes, "-1 GiB"), testing::HasSubstr("is negative"));
  EXPECT_THAT(complaint(parse_bytes, "0.3 B"), testing::HasSubstr("no whole number of bytes"));
  EXPECT_THAT(complaint(parse_bytes, "1.2.3 B"), testing::HasSubstr("unknown unit \".3 B\""));
  EXPECT_THAT(complaint(parse_bytes, "nan GiB"),
              testing::HasSubstr("does not start with a number"));
  EXPECT_THAT(complaint(parse_bytes, "5 gib"), testing::HasSubstr("known are B, kB, KiB"));
  EXPECT_THAT(complaint(parse_bytes, "5 EB"), testing::HasSubstr("unknown unit \"EB\""));
  EXPECT_THAT(complaint(parse_bytes, "5\n\xFFGiB"), testing::HasSubstr("\"5??GiB\""));
}

TEST(ParseDuration, UnitsOfTime) {
  EXPECT_EQ(parse_duration("5 us", ""), 5_us);
  EXPECT_EQ(parse_duration("3.4us", ""), Duration{3400});
  EXPECT_EQ(parse_duration("5 \u00b5s", ""), 5_us);
  EXPECT_EQ(parse_duration("7ms", ""), 7_ms);
  EXPECT_EQ(parse_duration("1.5 min", ""), 90_s);
  EXPECT_EQ(parse_duration("2 h", ""), 7200_s);
  EXPECT_THAT(complaint(parse_duration, "0.5 ns"),
              testing::HasSubstr("no whole number of nanoseconds"));
  EXPECT_THAT(complaint(parse_duration, "5"), testing::HasSubstr("for example \"5 us\""));
}

TEST(ParseBandwidth, BytesAndBits) {
  EXPECT_EQ(parse_bandwidth("900 GB/s", "").bytes_per_s, 900e9);
  EXPECT_EQ(parse_bandwidth("25 GiB/s", "").bytes_per_s,
            26'843'545'600.0);  // 25 * 2^30, 7.4% more than 25 GB/s
  EXPECT_EQ(parse_bandwidth("400 Gbit/s", "").bytes_per_s, 50e9);
  EXPECT_THAT(complaint(parse_bandwidth, "900"), testing::HasSubstr("has no unit"));
  EXPECT_THAT(complaint(parse_bandwidth, "400 Gb/s"), testing::HasSubstr("unknown unit \"Gb/s\""));
  EXPECT_THAT(complaint(parse_bandwidth, "0 GB/s"), testing::HasSubstr("is not positive"));
  EXPECT_THAT(complaint(parse_bandwidth, "1e400 GB/s"), testing::HasSubstr("too large"));
}

TEST(ParseFlopRate, Prefixes) {
  EXPECT_EQ(parse_flop_rate("989.4 TFLOP/s", "").flops_per_s, 989.4e12);
  EXPECT_EQ(parse_flop_rate("312 TFLOPS", "").flops_per_s, 312e12);
  EXPECT_THAT(complaint(parse_flop_rate, "312 TFLOP"), testing::HasSubstr("unknown unit"));
}

TEST(ExactText, ReadsBackToTheSameValue) {
  EXPECT_EQ(exact_text(80_GiB), "80 GiB");
  EXPECT_EQ(exact_text(Bytes{1536}), "1536 B");
  EXPECT_EQ(exact_text(Bytes{0}), "0 B");
  EXPECT_EQ(exact_text(5_us), "5 us");
  EXPECT_EQ(exact_text(Bandwidth{900e9}), "900 GB/s");
  for (const Bytes bytes :
       {Bytes{1}, Bytes{1'000'001}, Bytes{6'000'000}, Bytes{3 << 20}, Bytes{(1LL << 62) + 1}})
    EXPECT_EQ(parse_bytes(exact_text(bytes), ""), bytes);
  for (const double rate : {1.0 / 3, 12.345e9, 6.02214076e23, 1e-9})
    EXPECT_EQ(parse_bandwidth(exact_text(Bandwidth{rate}), "").bytes_per_s, rate);
  EXPECT_EQ(parse_flop_rate(exact_text(FlopRate{98.765e12}), "").flops_per_s, 98.765e12);
}

TEST(RoundedText, ThreeSignificantDigits) {
  EXPECT_EQ(rounded_text(Bytes{1'320'702'444}), "1.23 GiB");  // 1.23 * 2^30 = 1,320,702,443.5
  EXPECT_EQ(rounded_text(Bytes{512}), "512 B");
  EXPECT_EQ(rounded_text(45'600_us), "45.6 ms");
  EXPECT_EQ(rounded_text(Duration{999'960}), "1.00 ms");
  EXPECT_EQ(rounded_text(Duration{-1500}), "-1.50 us");
  EXPECT_EQ(rounded_text(Bandwidth{12.34e9}), "12.3 GB/s");
  EXPECT_EQ(rounded_text(FlopRate{456.4e9}), "456 GFLOP/s");
}

}  // namespace
}  // namespace shardscope
