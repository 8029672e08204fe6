// The wire format of protocol buffers, to read: one field after another, never past the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardscope {

/// One field of a message. Which of the values counts follows from the wire type.
struct ProtobufField {
  enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  std::uint32_t number = 0;
  Wire wire = Wire::varint;
  std::uint64_t value = 0;  ///< of a varint, and the bits of fixed64 and fixed32
  std::string_view bytes;   ///< a text, or a message in this one

  double as_double() const;  ///< of fixed64
  float as_float() const;    ///< of fixed32
};

/// Fields of `message` in the order in which they stand. Source: protobuf.dev, "Encoding".
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  /// The next field; none at the end, and where the message is broken (`is_broken`).
  std::optional<ProtobufField> next();
  bool is_broken() const { return is_broken_; }

 private:
  std::optional<std::uint64_t> varint();
  std::optional<std::uint64_t> fixed(std::size_t size);
  std::optional<ProtobufField> broken();

  std::string_view rest_;
  bool is_broken_ = false;
};

}  // namespace shardscope
