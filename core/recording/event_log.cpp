#include "core/recording/event_log.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "core/base/error.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

constexpr std::string_view version = "V\t1";
constexpr std::size_t most_fields = 64;
constexpr std::int64_t largest_log = std::int64_t{1} << 30;

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  while (fields.size() + 1 < most_fields) {
    const std::size_t tab = line.find('\t');
    fields.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
  fields.push_back(line);
  return fields;
}

Error damaged(const std::string& where, std::string what) {
  return Error({.where = where,
                .what = std::move(what),
                .way_out = "record again; only `shardscope record` writes this file"});
}

}  // namespace

std::int64_t LogLine::integer(std::size_t field, std::int64_t most) const {
  const auto value = number_of(text(field));
  if (!value || *value < -1 || *value > most)
    throw damaged(fmt::format("line {}", number), fmt::format("expected a number up to {}", most));
  return *value;
}

std::string_view LogLine::text(std::size_t field) const {
  if (field >= fields.size())
    throw damaged(fmt::format("line {}", number),
                  fmt::format("\"{}\" has {} fields", kind, fields.size()));
  return fields[field];
}

EventLog::EventLog(const std::filesystem::path& path)
    : path_(path), content_(read_whole(path, largest_log)) {
  std::string_view rest = content_;
  // What was reserved and not written.
  rest = rest.substr(0, rest.find('\0'));
  if (!rest.starts_with(version)) throw damaged(path.string(), "is no log of a recording");
  std::size_t number = 0;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;  // the process was killed while it wrote
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    ++number;
    is_whole_ = line == "END";
    std::vector<std::string_view> fields = split(line);
    if (fields[0] == "S" && fields.size() == 3) {
      texts_.push_back(fields[2]);
      continue;
    }
    const auto thread = number_of(fields[0]);
    if (!thread || fields.size() < 2) continue;
    lines_.push_back({.thread = static_cast<int>(*thread),
                      .kind = fields[1],
                      .fields = {fields.begin() + 2, fields.end()},
                      .number = number});
  }
}

std::string_view EventLog::text(std::int64_t number) const {
  if (number < 0 || static_cast<std::size_t>(number) >= texts_.size())
    throw damaged(path_.string(), fmt::format("text {} is not in it", number));
  return texts_[static_cast<std::size_t>(number)];
}

}  // namespace shardscope
