#include "traces/protobuf_message.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

using namespace std::string_literals;

// The examples of protobuf.dev, "Encoding".
TEST(ProtobufMessage, WritesVarintsSevenBitsAByte) {
  EXPECT_EQ(ProtobufMessage().varint(1, 150).bytes(), "\x08\x96\x01"s);
  EXPECT_EQ(ProtobufMessage().varint(1, static_cast<std::uint64_t>(std::int64_t{-2})).bytes(),
            "\x08\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s);
}

TEST(ProtobufMessage, WritesTextsAndMessagesBehindTheirLength) {
  EXPECT_EQ(ProtobufMessage().text(2, "testing").bytes(), "\x12\x07testing"s);
  EXPECT_EQ(ProtobufMessage().message(3, ProtobufMessage().varint(1, 150)).bytes(),
            "\x1A\x03\x08\x96\x01"s);
}

TEST(ProtobufMessage, WritesFixedNumbersLowestByteFirst) {
  // Field 47: 47 * 8 + 1 = 377, in two bytes.
  EXPECT_EQ(ProtobufMessage().fixed64(47, 0x0102).bytes(),
            "\xF9\x02\x02\x01\x00\x00\x00\x00\x00\x00"s);
}

}  // namespace
}  // namespace shardscope
