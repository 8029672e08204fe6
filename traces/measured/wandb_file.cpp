#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <charconv>

#include "traces/measured/metric_formats.h"
#include "traces/measured/protobuf_reader.h"

namespace shardscope {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view magic = ":W&B"sv;
constexpr std::size_t header_bytes = 7;  // the magic, a number, a version
constexpr std::size_t block_bytes = 32768;
constexpr std::size_t chunk_head = 7;  // checksum, length, kind
constexpr std::size_t most_record = std::size_t{64} << 20;
enum ChunkKind : std::uint8_t { full = 1, first = 2, middle = 3, last = 4 };

/// Steps as frameworks log them; W&B's own _step counts calls of log().
constexpr std::array step_keys{"train/global_step"sv, "trainer/global_step"sv, "global_step"sv};

std::optional<double> number_of(std::string_view json) {
  double value = 0;
  const auto [end, error] = std::from_chars(json.data(), json.data() + json.size(), value);
  if (error != std::errc() || end != json.data() + json.size()) return std::nullopt;
  return value;
}

struct Item {
  std::string key;
  std::optional<double> value;
};

/// Of a HistoryItem or StatsItem; nested keys are joined with ".".
Item item_of(std::string_view message) {
  Item item;
  ProtobufReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == 1) item.key = field->bytes;
    if (field->number == 2) item.key += (item.key.empty() ? "" : ".") + std::string(field->bytes);
    if (field->number == 16) item.value = number_of(field->bytes);
  }
  if (reader.is_broken()) item.value.reset();
  return item;
}

std::vector<Item> items_of(std::string_view message, std::uint32_t number) {
  std::vector<Item> items;
  ProtobufReader reader(message);
  while (const auto field = reader.next())
    if (field->number == number && field->wire == ProtobufField::Wire::bytes) {
      Item item = item_of(field->bytes);
      if (item.value) items.push_back(std::move(item));
    }
  return items;
}

std::optional<double> value_at(const std::vector<Item>& items, std::string_view key) {
  for (const Item& item : items)
    if (item.key == key) return item.value;
  return std::nullopt;
}

std::optional<std::int64_t> whole(std::optional<double> value) {
  constexpr double most = 9e15;  // exact in a double
  if (!value || !(*value >= 0 && *value < most)) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

bool add_history(std::string_view message, MetricCollector& collector) {
  const std::vector<Item> items = items_of(message, 1);
  MetricPoint point{.step = whole(value_at(items, "_step")),
                    .time_s = value_at(items, "_timestamp")};
  for (const std::string_view key : step_keys)
    if (const auto step = whole(value_at(items, key))) point.step = step;
  for (const Item& item : items) {
    if (item.key.starts_with("_")) continue;
    point.value = *item.value;
    if (!collector.add(item.key, point)) return false;
  }
  return true;
}

/// google.protobuf.Timestamp.
std::optional<double> time_of(std::string_view message) {
  double seconds = 0;
  ProtobufReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == 1) seconds += static_cast<double>(field->value);
    if (field->number == 2) seconds += static_cast<double>(field->value) * 1e-9;
  }
  if (reader.is_broken()) return std::nullopt;
  return seconds;
}

bool add_stats(std::string_view message, MetricCollector& collector) {
  MetricPoint point;
  ProtobufReader reader(message);
  while (const auto field = reader.next())
    if (field->number == 2 && field->wire == ProtobufField::Wire::bytes)
      point.time_s = time_of(field->bytes);
  for (const Item& item : items_of(message, 3)) {
    point.value = *item.value;
    if (!collector.add("system." + item.key, point)) return false;
  }
  return true;
}

bool add_record(std::string_view record, MetricCollector& collector) {
  constexpr std::uint32_t history = 2, stats = 7;
  ProtobufReader reader(record);
  while (const auto field = reader.next()) {
    if (field->wire != ProtobufField::Wire::bytes) continue;
    if (field->number == history && !add_history(field->bytes, collector)) return false;
    if (field->number == stats && !add_stats(field->bytes, collector)) return false;
  }
  return true;
}

std::uint32_t little(std::string_view bytes, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value |= std::uint32_t{static_cast<std::uint8_t>(bytes[i])} << (8 * i);
  return value;
}

/// Pieces of a log: a record is one piece, or a first, middle ones and a last.
class Log {
 public:
  explicit Log(std::string_view bytes) : bytes_(bytes), at_(header_bytes) {}

  /// The next whole record; none at the end. Damaged pieces cost their record.
  std::optional<std::string> next() {
    std::string record;
    bool is_open = false;
    while (const auto chunk = next_chunk()) {
      const auto& [kind, data] = *chunk;
      if (kind == full || kind == first) record.clear();
      is_open = kind == full || kind == first || is_open;
      if (!is_open || record.size() + data.size() > most_record) {
        is_open = false;
        continue;
      }
      record += data;
      if (kind == full || kind == last) return record;
    }
    return std::nullopt;
  }
  std::size_t damaged() const { return damaged_; }
  bool is_cut() const { return is_cut_; }

 private:
  struct Chunk {
    std::uint8_t kind;
    std::string_view data;
  };

  std::optional<Chunk> next_chunk() {
    while (at_ < bytes_.size()) {
      const std::size_t left = block_bytes - at_ % block_bytes;
      if (left < chunk_head) {  // fill of a block
        at_ += left;
        continue;
      }
      const std::string_view rest = bytes_.substr(at_);
      if (rest.size() < chunk_head) break;
      const std::size_t length = little(rest.substr(4), 2);
      if (length > left - chunk_head) {  // damaged: on with the next block
        ++damaged_;
        at_ += left;
        continue;
      }
      if (length > rest.size() - chunk_head) break;
      at_ += chunk_head + length;
      if (wandb_checksum(rest.substr(6, length + 1)) == little(rest, 4))
        return Chunk{static_cast<std::uint8_t>(rest[6]), rest.substr(chunk_head, length)};
      ++damaged_;
    }
    is_cut_ = at_ < bytes_.size();
    return std::nullopt;
  }

  std::string_view bytes_;
  std::size_t at_;
  std::size_t damaged_ = 0;
  bool is_cut_ = false;
};

}  // namespace

std::uint32_t wandb_checksum(std::string_view kind_and_bytes) {
  return static_cast<std::uint32_t>(::crc32(0,
                                            reinterpret_cast<const Bytef*>(kind_and_bytes.data()),
                                            static_cast<uInt>(kind_and_bytes.size())));
}

bool is_wandb_file(std::string_view first_bytes) {
  return first_bytes.size() >= header_bytes && first_bytes.starts_with(magic);
}

MetricLog read_wandb_file(std::string_view bytes, const std::string& file) {
  MetricLog result{.file = file, .format = MetricFormat::wandb, .series = {}, .notes = {}};
  MetricCollector collector;
  Log log(bytes);
  while (const auto record = log.next()) {
    if (add_record(*record, collector)) continue;
    result.notes.emplace_back("more numbers than are read; the rest was left out");
    break;
  }
  if (log.damaged() > 0)
    result.notes.push_back(fmt::format("{} damaged pieces were passed over", log.damaged()));
  if (log.is_cut()) result.notes.emplace_back("the end is cut off");
  result.series = collector.take();
  return result;
}

}  // namespace shardscope
