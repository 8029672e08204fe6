#include <fmt/format.h>

#include <array>
#include <cstring>

#include "traces/measured/metric_formats.h"
#include "traces/measured/protobuf_reader.h"

namespace shardscope {
namespace {

constexpr std::size_t head_bytes = 12;  // length, and its checksum
constexpr std::size_t tail_bytes = 4;

/// Castagnoli's CRC-32, reflected polynomial 0x82F63B78 (RFC 3720, appendix B.4).
constexpr std::array<std::uint32_t, 256> crc32c_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = value;
  }
  return table;
}();

template <class Number>
Number number_at(std::string_view bytes) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i)
    value |= static_cast<Number>(static_cast<std::uint8_t>(bytes[i])) << (8 * i);
  return value;
}

bool has_head(std::string_view bytes) {
  return bytes.size() >= head_bytes &&
         masked_crc32c(bytes.substr(0, 8)) == number_at<std::uint32_t>(bytes.substr(8));
}

/// A double or float that stands first in packed values.
std::optional<double> first_packed(std::string_view bytes, bool is_double) {
  if (bytes.size() < (is_double ? 8U : 4U)) return std::nullopt;
  ProtobufField field;
  field.value = is_double ? number_at<std::uint64_t>(bytes) : number_at<std::uint32_t>(bytes);
  return is_double ? field.as_double() : static_cast<double>(field.as_float());
}

/// The value of a TensorProto that holds one float or double.
std::optional<double> scalar_of_tensor(std::string_view message) {
  constexpr std::uint64_t dt_float = 1, dt_double = 2;
  std::uint64_t dtype = 0;
  std::optional<double> value;
  std::string_view content;
  ProtobufReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == 1) dtype = field->value;
    if (field->number == 4) content = field->bytes;
    const bool is_values = field->number == 5 || field->number == 6;
    if (!is_values) continue;
    if (field->wire == ProtobufField::Wire::bytes)
      value = first_packed(field->bytes, field->number == 6);
    else
      value = field->number == 6 ? field->as_double() : static_cast<double>(field->as_float());
  }
  if (dtype != dt_float && dtype != dt_double) return std::nullopt;
  if (!value && !content.empty()) value = first_packed(content, dtype == dt_double);
  return reader.is_broken() ? std::nullopt : value;
}

struct Scalar {
  std::string_view tag;
  std::optional<double> value;
};

Scalar scalar_of(std::string_view message) {
  Scalar scalar;
  ProtobufReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == 1) scalar.tag = field->bytes;
    if (field->number == 2 && field->wire == ProtobufField::Wire::fixed32)
      scalar.value = static_cast<double>(field->as_float());
    if (field->number == 8) scalar.value = scalar_of_tensor(field->bytes);
  }
  if (reader.is_broken()) scalar.value.reset();
  return scalar;
}

/// Adds the scalars of one Event; false where a limit is met.
bool add_event(std::string_view message, MetricCollector& collector) {
  MetricPoint point{.step = 0};
  std::string_view summary;
  ProtobufReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == 1 && field->wire == ProtobufField::Wire::fixed64)
      point.time_s = field->as_double();
    if (field->number == 2) point.step = static_cast<std::int64_t>(field->value);
    if (field->number == 5) summary = field->bytes;
  }
  if (reader.is_broken()) return true;
  ProtobufReader values(summary);
  while (const auto field = values.next()) {
    if (field->number != 1 || field->wire != ProtobufField::Wire::bytes) continue;
    const Scalar scalar = scalar_of(field->bytes);
    if (!scalar.value) continue;
    point.value = *scalar.value;
    if (!collector.add(scalar.tag, point)) return false;
  }
  return true;
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes)
    crc = crc32c_table[(crc ^ static_cast<std::uint8_t>(byte)) & 0xFF] ^ (crc >> 8);
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

bool is_event_file(std::string_view first_bytes) { return has_head(first_bytes); }

MetricLog read_event_file(std::string_view bytes, const std::string& file) {
  MetricLog log{.file = file, .format = MetricFormat::tensorboard, .series = {}, .notes = {}};
  MetricCollector collector;
  std::size_t records = 0, damaged = 0;
  const std::size_t all = bytes.size();
  while (!bytes.empty()) {
    const bool has_whole_head = has_head(bytes);
    const std::uint64_t length = has_whole_head ? number_at<std::uint64_t>(bytes) : 0;
    const bool is_cut = !has_whole_head || bytes.size() - head_bytes < tail_bytes ||
                        length > bytes.size() - head_bytes - tail_bytes;
    if (is_cut) {
      log.notes.push_back(
          fmt::format("the record at byte {} is cut off or damaged: {} records before it were read",
                      all - bytes.size(), records));
      break;
    }
    const std::string_view message = bytes.substr(head_bytes, length);
    const auto checksum = number_at<std::uint32_t>(bytes.substr(head_bytes + length));
    bytes.remove_prefix(head_bytes + length + tail_bytes);
    ++records;
    if (masked_crc32c(message) != checksum) {
      ++damaged;
    } else if (!add_event(message, collector)) {
      log.notes.emplace_back("more numbers than are read; the rest was left out");
      break;
    }
  }
  if (damaged > 0)
    log.notes.push_back(fmt::format("{} records with a wrong checksum were passed over", damaged));
  log.series = collector.take();
  return log;
}

}  // namespace shardscope
