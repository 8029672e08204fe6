// The wire format of protocol buffers, to write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardscope {

/// One message under construction. Source: protobuf.dev, "Encoding".
class ProtobufMessage {
 public:
  /// int32, int64, uint32, uint64, bool, enum: negative ones take ten bytes.
  ProtobufMessage& varint(std::uint32_t field, std::uint64_t value) {
    append_varint(std::uint64_t{field} << 3);
    append_varint(value);
    return *this;
  }
  ProtobufMessage& fixed64(std::uint32_t field, std::uint64_t value) {
    append_varint(std::uint64_t{field} << 3 | 1);
    for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(value >> shift & 0xFF);
    return *this;
  }
  /// string or bytes.
  ProtobufMessage& text(std::uint32_t field, std::string_view text) {
    append_varint(std::uint64_t{field} << 3 | 2);
    append_varint(text.size());
    bytes_ += text;
    return *this;
  }
  ProtobufMessage& message(std::uint32_t field, const ProtobufMessage& message) {
    return text(field, message.bytes_);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void append_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace shardscope
