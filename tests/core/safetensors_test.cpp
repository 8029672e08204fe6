#include "core/format/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/format/float_formats.h"
#include "tests/core/complaint.h"
#include "tests/core/temporary_folder.h"

namespace shardscope {
namespace {

using testing::HasSubstr;

std::string file_text(std::string_view header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + std::string(header) + std::string(data_bytes, '\1');
}

class SafetensorsTest : public testing::Test {
 protected:
  std::string refusal(std::string_view content) {
    const auto path = folder_.write("a.safetensors", content);
    return complaint_of([&] { SafetensorsFile file(path); });
  }
  std::string refusal_of_header(std::string_view header, std::size_t data_bytes) {
    return refusal(file_text(header, data_bytes));
  }

  TemporaryFolder folder_;
};

TEST_F(SafetensorsTest, ReadsTensorsAndMetadata) {
  const auto path = folder_.write(
      "a",
      file_text(
          R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[2,10]},)"
          R"("a":{"dtype":"U8","shape":[1,2],"data_offsets":[0,2]},"e":{"dtype":"F32","shape":[0,3],)"
          R"("data_offsets":[10,10]}}   )",
          10));
  const SafetensorsFile file(path);
  ASSERT_EQ(file.header().tensors.size(), 3u);
  EXPECT_EQ(file.header().tensors[0].name, "a");
  EXPECT_EQ(file.header().metadata, (SafetensorsMetadata{{"format", "pt"}}));
  ASSERT_NE(file.find("b"), nullptr);
  EXPECT_EQ(file.find("b")->elements(), 2);
  EXPECT_EQ(file.find("e")->elements(), 0);
  EXPECT_EQ(file.find("c"), nullptr);
}

// Work that grows with the square of the number of tensors would take hours.
TEST_F(SafetensorsTest, AHeaderOfAHundredThousandTensorsIsRead) {
  constexpr int count = 100'000;
  std::string header = "{";
  for (int i = 0; i < count; ++i)
    header += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(i) + "," +
              std::to_string(i + 1) + "]}";
  const SafetensorsFile file(folder_.write("a", file_text(header + "}", count)));
  ASSERT_EQ(file.header().tensors.size(), 100'000u);
  ASSERT_NE(file.find("t99999"), nullptr);
  EXPECT_EQ(file.find("t99999")->begin, 99'999);
  EXPECT_EQ(file.find("t100000"), nullptr);
}

TEST_F(SafetensorsTest, WhatWasWrittenReadsBackInAnyPieces) {
  const SafetensorsHeader header =
      safetensors_header({{.name = "y", .shape = {2, 2}}, {.name = "x", .shape = {3}}}, {});
  const std::vector<float> values{1, 2, 3, 4, 5, 6, 7};
  SafetensorsWriter writer(folder_.path() / "a", header);
  writer.write(std::as_bytes(std::span(values).first(2)));
  writer.write(std::as_bytes(std::span(values).subspan(2)));
  writer.commit();
  const SafetensorsFile file(folder_.path() / "a");
  std::vector<float> read(2);
  file.read_floats(*file.find("y"), 1, read);  // x has 1 2 3, y has 4 5 6 7
  EXPECT_EQ(read, (std::vector<float>{5, 6}));
  EXPECT_THROW(file.read_floats(*file.find("y"), 3, read), Error);
}

TEST_F(SafetensorsTest, TheHeaderIsPaddedToEightBytes) {
  const SafetensorsHeader header =
      safetensors_header({{.name = "x", .shape = {3}}}, {{"format", "pt"}});
  // {"__metadata__":{"format":"pt"},"x":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}} has 86
  // characters
  EXPECT_EQ(header.data_begin, 8 + 88);
  EXPECT_EQ(header.file_bytes, 8 + 88 + 12);
  EXPECT_EQ(
      header_bytes(header).substr(8),
      R"({"__metadata__":{"format":"pt"},"x":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}  )");
}

TEST_F(SafetensorsTest, LargerDtypesComeFirstThenNames) {
  const SafetensorsHeader header =
      safetensors_header({{.name = "a", .dtype = Dtype::bfloat16, .shape = {1}},
                          {.name = "z", .dtype = Dtype::float32, .shape = {1}},
                          {.name = "b", .dtype = Dtype::float32, .shape = {1}}},
                         {});
  EXPECT_EQ(header.tensors[0].name, "b");
  EXPECT_EQ(header.tensors[1].name, "z");
  EXPECT_EQ(header.tensors[2].name, "a");
}

TEST_F(SafetensorsTest, AHeaderLongerThanTheFileIsRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("has 0 bytes, too few"));
  EXPECT_THAT(refusal("1234567"), HasSubstr("has 7 bytes, too few"));
  EXPECT_THAT(refusal(std::string("\x09\0\0\0\0\0\0\0{}", 10)),
              HasSubstr("length is 9 bytes, the file has 10"));
  EXPECT_THAT(refusal(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)),
              HasSubstr("more than the 100000000"));
  EXPECT_THAT(refusal_of_header("[]", 0), HasSubstr("does not start with '{'"));
  EXPECT_THAT(refusal_of_header("{", 0), HasSubstr("the file ends"));
}

TEST_F(SafetensorsTest, BadOffsetsAreRefused) {
  const auto one = [](std::string_view offsets) {
    return R"({"x":{"dtype":"F32","shape":[2],"data_offsets":)" + std::string(offsets) + "}}";
  };
  EXPECT_THAT(refusal_of_header(one("[8,0]"), 8), HasSubstr("the end 0 lies before the begin 8"));
  EXPECT_THAT(refusal_of_header(one("[0,4]"), 4), HasSubstr("need 8 bytes, the offsets span 4"));
  EXPECT_THAT(refusal_of_header(one("[-8,0]"), 8), HasSubstr("at least 0"));
  EXPECT_THAT(refusal_of_header(one("[0]"), 8), HasSubstr("expected two offsets"));
  EXPECT_THAT(refusal_of_header(one("[8,16]"), 16), HasSubstr("there is a hole"));
  EXPECT_THAT(refusal_of_header(one("[0,8]"), 7), HasSubstr("take 8 bytes, the file holds 7"));
  EXPECT_THAT(refusal_of_header(one("[0,8]"), 9), HasSubstr("take 8 bytes, the file holds 9"));
}

TEST_F(SafetensorsTest, OverlappingTensorsAreRefused) {
  EXPECT_THAT(refusal_of_header(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                R"("y":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                                12),
              HasSubstr("tensor y begins at byte 4, the one before it ends at 8: they overlap"));
}

TEST_F(SafetensorsTest, OverflowingShapesAreRefused) {
  EXPECT_THAT(
      refusal_of_header(
          R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
      HasSubstr("more than 2^63 bytes"));  // the product is 0 modulo 2^64
  EXPECT_THAT(refusal_of_header(R"({"x":{"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]}})", 4),
              HasSubstr("at least 0"));
}

TEST_F(SafetensorsTest, BrokenHeadersAreRefused) {
  EXPECT_THAT(
      refusal_of_header(R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"x":{}})", 0),
      HasSubstr("the key \"x\" stands twice"));
  EXPECT_THAT(refusal_of_header("{\"\xff\":{}}", 0), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(refusal_of_header(R"({"x":{"dtype":"F33","shape":[],"data_offsets":[0,4]}})", 4),
              HasSubstr("F33"));
  EXPECT_THAT(refusal_of_header(R"({"x":{"dtype":"F32","shape":[]}})", 4),
              HasSubstr("\"data_offsets\" is missing"));
  EXPECT_THAT(refusal_of_header(R"({"__metadata__":{"a":1}})", 0), HasSubstr("expected a string"));
  EXPECT_THAT(refusal_of_header(std::string(2000, '{'), 0), HasSubstr("a key in double quotes"));
}

TEST_F(SafetensorsTest, AFolderOrAMissingFileIsNamed) {
  EXPECT_THAT(complaint_of([&] { SafetensorsFile file(folder_.path()); }),
              HasSubstr("is no regular file"));
  EXPECT_THAT(complaint_of([&] { SafetensorsFile file(folder_.path() / "none"); }),
              HasSubstr("No such file"));
}

TEST(FloatFormats, SpecialValues) {
  EXPECT_EQ(float_of_bfloat16(0x3FC0), 1.5f);
  EXPECT_EQ(float_of_bfloat16(0xFF80), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(float_of_float16(0x3E00), 1.5f);
  EXPECT_EQ(float_of_float16(0x7BFF), 65504.0f);                // the largest
  EXPECT_EQ(float_of_float16(0x0001), 5.9604644775390625e-8f);  // 2^-24, the smallest subnormal
  EXPECT_EQ(float_of_float16(0x8400), -6.103515625e-5f);        // -2^-14, the smallest normal
  EXPECT_EQ(float_of_float16(0x7C00), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(float_of_float16(0x7E00)));
}

}  // namespace
}  // namespace shardscope
