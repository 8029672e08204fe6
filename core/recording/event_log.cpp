#include "core/recording/event_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <future>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "core/format/atomic_file.h"

namespace shardscope {
namespace {

constexpr std::string_view versions[] = {"V\t1\n", "V\t2\n"};
constexpr std::int64_t largest_log = std::int64_t{1} << 30;

struct NamedKind {
  std::string_view name;
  LogKind kind;
};

constexpr NamedKind kinds[] = {{"op", LogKind::op},
                               {"node", LogKind::node},
                               {"end", LogKind::end},
                               {"views", LogKind::views},
                               {"kernel", LogKind::kernel},
                               {"gemm", LogKind::gemm},
                               {"dnn", LogKind::dnn},
                               {"copy", LogKind::copy},
                               {"set", LogKind::set},
                               {"nccl", LogKind::nccl},
                               {"group", LogKind::group},
                               {"communicator", LogKind::communicator},
                               {"record", LogKind::record},
                               {"wait", LogKind::wait},
                               {"host_wait", LogKind::host_wait},
                               {"sync", LogKind::sync},
                               {"alloc", LogKind::alloc},
                               {"free", LogKind::free},
                               {"uses", LogKind::uses},
                               {"enter", LogKind::enter},
                               {"leave", LogKind::leave},
                               {"phase", LogKind::phase},
                               {"purpose", LogKind::purpose},
                               {"tuning", LogKind::tuning},
                               {"unknown", LogKind::unknown},
                               {"invented", LogKind::invented},
                               {"asked", LogKind::asked},
                               {"torch", LogKind::torch},
                               {"allocator", LogKind::allocator},
                               {"statistics", LogKind::statistics}};

/// Where the kinds with each first letter are among all.
struct KindsByLetter {
  std::array<std::vector<NamedKind>, 256> of;
  KindsByLetter() {
    for (const NamedKind& one : kinds) of[static_cast<unsigned char>(one.name[0])].push_back(one);
  }
};

LogKind kind_of(std::string_view name) {
  static const KindsByLetter by_letter;
  if (name.empty()) return LogKind::other;
  for (const NamedKind& one : by_letter.of[static_cast<unsigned char>(name[0])])
    if (one.name == name) return one.kind;
  return LogKind::other;
}

/// Where reading is in a line's fields; null: behind the last one.
struct Cursor {
  const char* at;
  const char* end;
};

/// Takes the whole number that is the next field, with the tab behind it; none where the field is
/// something else or has 19 digits and more. std::from_chars and a search for the tab take three
/// times as long.
std::optional<std::int64_t> take_number(Cursor& cursor) {
  constexpr std::ptrdiff_t most_digits = 18;
  const char* at = cursor.at;
  const bool is_negative = at != cursor.end && *at == '-';
  if (is_negative) ++at;
  const char* const digits = at;
  const char* const longest = cursor.end - at > most_digits ? at + most_digits : cursor.end;
  std::int64_t number = 0;
  for (; at != longest; ++at) {
    const auto digit = static_cast<unsigned>(*at - '0');
    if (digit > 9) break;
    number = number * 10 + digit;
  }
  const bool is_last = at == cursor.end;
  if (at == digits || (!is_last && *at != '\t')) return std::nullopt;
  cursor.at = is_last ? nullptr : at + 1;
  return is_negative ? -number : number;
}

void skip_field(Cursor& cursor) {
  while (cursor.at != cursor.end && *cursor.at != '\t') ++cursor.at;
  cursor.at = cursor.at == cursor.end ? nullptr : cursor.at + 1;
}

/// What comes before the first tab, and what comes behind it; none: there is no tab.
std::pair<std::string_view, std::optional<std::string_view>> cut(std::string_view text) {
  // Fields have a few letters: a call of memchr would take longer.
  std::size_t tab = 0;
  while (tab < text.size() && text[tab] != '\t') ++tab;
  if (tab == text.size()) return {text, std::nullopt};
  return {text.substr(0, tab), text.substr(tab + 1)};
}

Error damaged(const std::string& where, std::string what) {
  return Error({.where = where,
                .what = std::move(what),
                .way_out = "record again; only `shardscope record` writes this file"});
}

void read_line(std::string_view line, LogPart& part) {
  if (line.starts_with("S\t")) {
    if (const auto text = cut(line.substr(2)).second) part.texts.push_back(*text);
    return;
  }
  Cursor cursor{line.data(), line.data() + line.size()};
  const auto thread = take_number(cursor);
  if (!thread || cursor.at == nullptr) return;
  const auto [name, fields] = cut({cursor.at, static_cast<std::size_t>(cursor.end - cursor.at)});
  const LogKind kind = kind_of(name);
  if (kind == LogKind::other) return;
  part.lines.push_back({.begin = fields ? fields->data() : nullptr,
                        .size = fields ? static_cast<std::uint32_t>(fields->size()) : 0,
                        .number = part.count,
                        .thread = static_cast<int>(*thread),
                        .kind = kind});
}

LogPart read_piece(std::string_view piece) {
  LogPart part;
  constexpr std::size_t usual_line = 16;
  part.lines.reserve(piece.size() / usual_line);
  while (true) {
    const std::size_t end = piece.find('\n');
    if (end == std::string_view::npos) return part;  // the process was killed while it wrote
    ++part.count;
    part.last = piece.substr(0, end);
    read_line(part.last, part);
    piece.remove_prefix(end + 1);
  }
}

/// A piece for each thread, of 1 MiB or more, that ends with a line.
std::vector<std::string_view> pieces_of(std::string_view log, std::size_t threads) {
  constexpr std::size_t worth_a_thread = std::size_t{1} << 20;
  const std::size_t count = std::clamp<std::size_t>(log.size() / worth_a_thread, 1, threads);
  std::vector<std::string_view> pieces;
  for (std::size_t left = count; left > 1; --left) {
    const std::size_t end = log.find('\n', log.size() / left);
    if (end == std::string_view::npos) break;
    pieces.push_back(log.substr(0, end + 1));
    log.remove_prefix(end + 1);
  }
  pieces.push_back(log);
  return pieces;
}

}  // namespace

std::size_t log_threads() { return std::clamp(std::thread::hardware_concurrency(), 1U, 8U); }

Error LogLine::no_number(std::int64_t most) const {
  return damaged(fmt::format("line {}", number), fmt::format("expected a number up to {}", most));
}

std::int64_t LogLine::integer(std::size_t field, std::int64_t most) const {
  Cursor cursor{begin, begin + size};
  for (std::size_t i = 0; i < field && cursor.at != nullptr; ++i) skip_field(cursor);
  if (cursor.at == nullptr) throw lacks(field);
  const auto value = take_number(cursor);
  if (!value || *value < -1 || *value > most) throw no_number(most);
  return *value;
}

std::array<std::int64_t, 3> LogLine::three_integers(std::array<std::int64_t, 3> most) const {
  std::array<std::int64_t, 3> values{};
  Cursor cursor{begin, begin + size};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (cursor.at == nullptr) throw lacks(i);
    const auto value = take_number(cursor);
    if (!value || *value < -1 || *value > most[i]) throw no_number(most[i]);
    values[i] = *value;
  }
  return values;
}

Error LogLine::lacks(std::size_t field) const {
  return damaged(fmt::format("line {}", number), fmt::format("has no field {}", field + 1));
}

bool LogLine::has(std::size_t field) const {
  return static_cast<std::size_t>(std::ranges::count(fields(), '\t')) >= field;
}

std::string_view LogLine::text(std::size_t field) const {
  std::optional<std::string_view> rest = fields();
  for (std::size_t i = 0; i < field && rest; ++i) rest = cut(*rest).second;
  if (!rest || rest->data() == nullptr) throw lacks(field);
  return cut(*rest).first;
}

EventLog::EventLog(const std::filesystem::path& path, std::size_t threads)
    : path_(path), content_(read_whole(path, largest_log)) {
  // What was reserved and not written.
  const std::string_view written = std::string_view(content_).substr(0, content_.find('\0'));
  if (std::ranges::none_of(versions,
                           [&](std::string_view one) { return written.starts_with(one); }))
    throw damaged(path.string(), "is no log of a recording");
  std::vector<std::future<LogPart>> others;
  const std::vector<std::string_view> pieces = pieces_of(written, threads);
  for (const std::string_view piece : std::span(pieces).subspan(1))
    others.push_back(std::async(std::launch::async, read_piece, piece));
  take(read_piece(pieces.front()));
  for (std::future<LogPart>& other : others) take(other.get());
}

void EventLog::take(LogPart part) {
  for (LogLine& line : part.lines) line.number += count_;
  count_ += part.count;
  texts_.insert(texts_.end(), part.texts.begin(), part.texts.end());
  if (!part.lines.empty()) pieces_.push_back(std::move(part.lines));
  if (part.count > 0) is_whole_ = part.last == "END";
}

std::string_view EventLog::text(std::int64_t number) const {
  if (number < 0 || static_cast<std::size_t>(number) >= texts_.size())
    throw damaged(path_.string(), fmt::format("text {} is not in it", number));
  return texts_[static_cast<std::size_t>(number)];
}

}  // namespace shardscope
