#include "traces/measured/protobuf_reader.h"

#include <bit>

namespace shardscope {

double ProtobufField::as_double() const { return std::bit_cast<double>(value); }
float ProtobufField::as_float() const {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value));
}

std::optional<std::uint64_t> ProtobufReader::varint() {
  constexpr int most_bits = 64;
  std::uint64_t value = 0;
  for (int shift = 0; shift < most_bits; shift += 7) {
    if (rest_.empty()) return std::nullopt;
    const auto byte = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> ProtobufReader::fixed(std::size_t size) {
  if (rest_.size() < size) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value |= std::uint64_t{static_cast<std::uint8_t>(rest_[i])} << (8 * i);
  rest_.remove_prefix(size);
  return value;
}

std::optional<ProtobufField> ProtobufReader::broken() {
  is_broken_ = true;
  rest_ = {};
  return std::nullopt;
}

std::optional<ProtobufField> ProtobufReader::next() {
  if (rest_.empty()) return std::nullopt;
  const auto key = varint();
  constexpr std::uint64_t most_number = (1U << 29) - 1;
  if (!key || *key >> 3 == 0 || *key >> 3 > most_number) return broken();
  ProtobufField field{.number = static_cast<std::uint32_t>(*key >> 3)};
  std::optional<std::uint64_t> value;
  switch (*key & 7) {
    case 0:
      value = varint();
      break;
    case 1:
      field.wire = ProtobufField::Wire::fixed64;
      value = fixed(8);
      break;
    case 2:
      field.wire = ProtobufField::Wire::bytes;
      value = varint();
      if (!value || *value > rest_.size()) return broken();
      field.bytes = rest_.substr(0, *value);
      rest_.remove_prefix(*value);
      break;
    case 5:
      field.wire = ProtobufField::Wire::fixed32;
      value = fixed(4);
      break;
    default:  // groups, which nobody writes any more
      return broken();
  }
  if (!value) return broken();
  field.value = *value;
  return field;
}

}  // namespace shardscope
