#include "core/recording/event_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

constexpr std::string_view version = "V\t1";
constexpr std::int64_t largest_log = std::int64_t{1} << 30;

LogKind kind_of(std::string_view name) {
  using Kind = LogKind;
  static const std::unordered_map<std::string_view, Kind> kinds{
      {"op", Kind::op},
      {"node", Kind::node},
      {"end", Kind::end},
      {"kernel", Kind::kernel},
      {"gemm", Kind::gemm},
      {"dnn", Kind::dnn},
      {"copy", Kind::copy},
      {"set", Kind::set},
      {"nccl", Kind::nccl},
      {"group", Kind::group},
      {"communicator", Kind::communicator},
      {"record", Kind::record},
      {"wait", Kind::wait},
      {"host_wait", Kind::host_wait},
      {"sync", Kind::sync},
      {"alloc", Kind::alloc},
      {"free", Kind::free},
      {"uses", Kind::uses},
      {"enter", Kind::enter},
      {"leave", Kind::leave},
      {"phase", Kind::phase},
      {"purpose", Kind::purpose},
      {"tuning", Kind::tuning},
      {"unknown", Kind::unknown},
      {"invented", Kind::invented},
      {"asked", Kind::asked},
      {"torch", Kind::torch},
      {"allocator", Kind::allocator},
      {"statistics", Kind::statistics}};
  const auto known = kinds.find(name);
  return known == kinds.end() ? Kind::other : known->second;
}

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// What comes before the first tab, and what comes behind it; none: there is no tab.
std::pair<std::string_view, std::optional<std::string_view>> cut(std::string_view text) {
  const std::size_t tab = text.find('\t');
  if (tab == std::string_view::npos) return {text, std::nullopt};
  return {text.substr(0, tab), text.substr(tab + 1)};
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

bool LogLine::has(std::size_t field) const {
  return static_cast<std::size_t>(std::ranges::count(fields, '\t')) >= field;
}

std::string_view LogLine::text(std::size_t field) const {
  std::optional<std::string_view> rest = fields;
  for (std::size_t i = 0; i < field && rest; ++i) rest = cut(*rest).second;
  if (!rest || rest->data() == nullptr)
    throw damaged(fmt::format("line {}", number), fmt::format("has no field {}", field + 1));
  return cut(*rest).first;
}

EventLog::EventLog(const std::filesystem::path& path)
    : path_(path), content_(read_whole(path, largest_log)) {
  std::string_view rest = content_;
  // What was reserved and not written.
  rest = rest.substr(0, rest.find('\0'));
  if (!rest.starts_with(version)) throw damaged(path.string(), "is no log of a recording");
  lines_.reserve(static_cast<std::size_t>(std::ranges::count(rest, '\n')));
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;  // the process was killed while it wrote
    read_line(rest.substr(0, end), number);
    rest.remove_prefix(end + 1);
  }
}

void EventLog::read_line(std::string_view line, std::size_t number) {
  is_whole_ = line == "END";
  const auto [first, rest] = cut(line);
  if (!rest) return;
  const auto [second, fields] = cut(*rest);
  if (first == "S") {
    if (fields) texts_.push_back(*fields);
    return;
  }
  const LogKind kind = kind_of(second);
  if (kind == LogKind::other) return;
  if (const auto thread = number_of(first))
    lines_.push_back({.thread = static_cast<int>(*thread),
                      .kind = kind,
                      .fields = fields.value_or(std::string_view()),
                      .number = number});
}

std::string_view EventLog::text(std::int64_t number) const {
  if (number < 0 || static_cast<std::size_t>(number) >= texts_.size())
    throw damaged(path_.string(), fmt::format("text {} is not in it", number));
  return texts_[static_cast<std::size_t>(number)];
}

}  // namespace shardscope
