#include "traces/predicted_buffers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>

#include "core/format/atomic_file.h"
#include "core/format/json_reader.h"
#include "core/format/json_string.h"
#include "traces/gzip.h"

namespace shardscope {
namespace {

constexpr std::int64_t most_text_bytes = std::int64_t{256} << 20;
/// 1 TiB: the most rows of a text within the reader's limits, 2^22, can be added up.
constexpr std::int64_t most_buffer_bytes = std::int64_t{1} << 40;

std::string id_text(OperationId id) { return id ? fmt::format("{}", id.value) : "null"; }

void append_row(std::string& out, const Schedule& schedule, std::size_t index) {
  const Buffer& buffer = schedule.buffers[index];
  out += fmt::format(R"({{"id":{},"name":)", index);
  append_json_string(out, schedule.name(buffer));
  out += fmt::format(R"(,"category":"{}","bytes":{},"allocated_by":{},"freed_by":{},"unit":)",
                     name_of(buffer.category), buffer.bytes.count, id_text(buffer.allocated_by),
                     id_text(buffer.freed_by));
  if (buffer.unit)
    append_json_string(out, schedule.units[buffer.unit.value].name);
  else
    out += "null";
  if (buffer.on_host) out += R"(,"on_host":true)";
  out += '}';
}

std::string rows_json(const Schedule& schedule, const std::vector<std::size_t>& buffers) {
  std::string out = "[";
  for (const std::size_t i : buffers) {
    if (out.size() > 1) out += ",\n";
    append_row(out, schedule, i);
  }
  return out + "]";
}

/// Those of the device that a step ever sees. What PyTorch allocates and frees while it sets up
/// says neither when; what compiled code never writes out has no bytes.
std::vector<std::size_t> lasting_buffers(const Schedule& schedule) {
  std::vector<bool> is_gone(schedule.buffers.size(), false);
  for (const HostAction& action : schedule.program.actions)
    if (action.kind == HostActionKind::free && !schedule.buffers[action.subject].freed_by)
      is_gone[action.subject] = true;
  std::vector<std::size_t> lasting;
  for (std::size_t i = 0; i < is_gone.size(); ++i)
    if (!is_gone[i] && !schedule.buffers[i].on_host && schedule.buffers[i].bytes.count > 0)
      lasting.push_back(i);
  return lasting;
}

OperationId read_id(const JsonValue& row, std::string_view key) {
  const std::optional<JsonValue> value = row.find(key);
  if (!value) return {};
  return OperationId{static_cast<std::uint32_t>(value->integer(0, OperationId::none_value - 1))};
}

MemoryCategory read_category(const JsonValue& value) {
  const std::string name = value.string();
  const auto found =
      std::find_if(memory_categories.begin(), memory_categories.end(),
                   [&](MemoryCategory category) { return name_of(category) == name; });
  if (found == memory_categories.end())
    throw value.error("expected a category of memory, got \"" + name + "\"");
  return *found;
}

PredictedBuffer read_row(const JsonValue& row) {
  const std::optional<JsonValue> unit = row.find("unit");
  return {.name = row.at("name").string(),
          .unit = unit ? unit->string() : std::string(),
          .category = read_category(row.at("category")),
          .bytes = {row.at("bytes").integer(0, most_buffer_bytes)},
          .allocated_by = read_id(row, "allocated_by"),
          .freed_by = read_id(row, "freed_by")};
}

}  // namespace

std::vector<PredictedBuffer> predicted_buffers(const Schedule& schedule) {
  std::vector<PredictedBuffer> result;
  for (const std::size_t i : lasting_buffers(schedule)) {
    const Buffer& buffer = schedule.buffers[i];
    result.push_back({.name = std::string(schedule.name(buffer)),
                      .unit = buffer.unit ? schedule.units[buffer.unit.value].name : std::string(),
                      .category = buffer.category,
                      .bytes = buffer.bytes,
                      .allocated_by = buffer.allocated_by,
                      .freed_by = buffer.freed_by});
  }
  return result;
}

std::string buffers_json(const Schedule& schedule) {
  std::vector<std::size_t> all(schedule.buffers.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return rows_json(schedule, all);
}

void write_buffers(const Schedule& schedule, const std::filesystem::path& path) {
  GzipWriter gzip;
  gzip.append(R"({"schema":"shardscope.buffers/1","buffers":)");
  gzip.append(rows_json(schedule, lasting_buffers(schedule)));
  gzip.append("}\n");
  write_atomically(path, gzip.finish());
}

std::vector<PredictedBuffer> parse_buffers(std::string_view text, std::string_view file_name) {
  const JsonValue file = JsonValue::parse(text, file_name, DuplicateKeys::last_wins);
  std::vector<PredictedBuffer> result;
  for (const JsonValue& row : file.at("buffers").elements()) result.push_back(read_row(row));
  return result;
}

std::vector<PredictedBuffer> read_buffers(const std::filesystem::path& path) {
  const std::string content = read_whole(path, most_text_bytes);
  return parse_buffers(gunzip(content, most_text_bytes, path.string()), path.string());
}

}  // namespace shardscope
