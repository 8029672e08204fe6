#include "core/recording/event_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "core/base/in_background.h"

namespace shardscope {
namespace {

constexpr std::string_view versions[] = {"V\t1\n", "V\t2\n"};
constexpr std::size_t largest_log = std::size_t{1} << 30;

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
                               {"oom", LogKind::oom},
                               {"segment_free", LogKind::segment_free},
                               {"malloc", LogKind::malloc},
                               {"uses", LogKind::uses},
                               {"enter", LogKind::enter},
                               {"leave", LogKind::leave},
                               {"phase", LogKind::phase},
                               {"purpose", LogKind::purpose},
                               {"tuning", LogKind::tuning},
                               {"graph", LogKind::graph},
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

/// Of eight letters the number that they are as digits; none where one is no digit. Adds pairs of
/// neighbours up three times, in all letters at once.
std::optional<std::uint32_t> eight_digits(const char* letters) {
  std::uint64_t word = 0;
  std::memcpy(&word, letters, sizeof word);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  constexpr std::uint64_t high = 0xf0f0f0f0f0f0f0f0, zeros = 0x3030303030303030;
  if ((word & high) != zeros || ((word + 0x0606060606060606) & high) != zeros) return std::nullopt;
  word -= zeros;
  word = (word * 10 + (word >> 8)) & 0x00ff00ff00ff00ff;
  word = (word * 100 + (word >> 16)) & 0x0000ffff0000ffff;
  return static_cast<std::uint32_t>(word * 10'000 + (word >> 32));
}

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
  for (; longest - at >= 8; at += 8) {
    const auto eight = eight_digits(at);
    if (!eight) break;
    number = number * 100'000'000 + *eight;
  }
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

void read_numbers(LogLine& line) {
  Cursor cursor{line.begin, line.begin + line.size};
  line.has_more = true;
  while (line.leading_numbers < line.numbers.size() && cursor.at != nullptr) {
    const auto number = take_number(cursor);
    if (!number) return;
    line.numbers[line.leading_numbers++] = *number;
  }
  line.has_more = cursor.at != nullptr;
}

void read_line(std::string_view text, LogPart& part) {
  if (text.starts_with("S\t")) {
    if (const auto named = cut(text.substr(2)).second) part.texts.push_back(*named);
    return;
  }
  Cursor cursor{text.data(), text.data() + text.size()};
  const auto thread = take_number(cursor);
  if (!thread || cursor.at == nullptr) return;
  const auto [name, fields] = cut({cursor.at, static_cast<std::size_t>(cursor.end - cursor.at)});
  const LogKind kind = kind_of(name);
  if (kind == LogKind::other) return;
  LogLine& line = part.lines.emplace_back();
  line.number = part.count;
  line.thread = static_cast<int>(*thread);
  line.kind = kind;
  if (!fields) return;
  line.begin = fields->data();
  line.size = static_cast<std::uint32_t>(fields->size());
  read_numbers(line);
}

/// Into the memory of a part that is not needed any more.
LogPart read_piece(std::string_view piece, LogPart part) {
  part.texts.clear();
  part.lines.clear();
  part.count = 0;
  while (true) {
    const std::size_t end = piece.find('\n');
    if (end == std::string_view::npos) return part;  // the process was killed while it wrote
    ++part.count;
    part.last = piece.substr(0, end);
    read_line(part.last, part);
    piece.remove_prefix(end + 1);
  }
}

/// What the process wrote of what it reserved.
std::string_view written_part(std::span<const std::byte> file) {
  const std::string_view all(reinterpret_cast<const char*>(file.data()), file.size());
  return all.substr(0, all.find('\0'));
}

/// Behind the line in which the last step ends; where none does, the log's end.
std::size_t end_of_steps(std::string_view log) {
  constexpr std::string_view line = "\tphase\tstep_end\n";
  const std::size_t at = log.rfind(line);
  return at == std::string_view::npos ? log.size() : at + line.size();
}

/// Adds pieces of whole lines, each so large that it is worth a thread and so small that its lines
/// stay in the processor's cache.
void add_pieces(std::string_view log, std::vector<std::string_view>& pieces) {
  constexpr std::size_t size = std::size_t{1} << 18;
  while (log.size() > size) {
    const std::size_t end = log.find('\n', size);
    if (end == std::string_view::npos) break;
    pieces.push_back(log.substr(0, end + 1));
    log.remove_prefix(end + 1);
  }
  if (!log.empty()) pieces.push_back(log);
}

}  // namespace

std::size_t log_threads() { return std::clamp(std::thread::hardware_concurrency(), 1U, 8U); }

Error LogLine::no_number(std::int64_t most) const {
  return damaged(fmt::format("line {}", number), fmt::format("expected a number up to {}", most));
}

std::int64_t LogLine::later_integer(std::size_t field, std::int64_t most) const {
  Cursor cursor{begin, begin + size};
  for (std::size_t i = 0; i < field && cursor.at != nullptr; ++i) skip_field(cursor);
  if (cursor.at == nullptr) throw lacks(field);
  const auto value = take_number(cursor);
  if (!value) throw no_number(most);
  return checked(*value, most);
}

Error LogLine::lacks(std::size_t field) const {
  return damaged(fmt::format("line {}", number), fmt::format("has no field {}", field + 1));
}

bool LogLine::has(std::size_t field) const {
  if (field < leading_numbers) return true;
  if (!has_more) return false;
  return static_cast<std::size_t>(std::ranges::count(fields(), '\t')) >= field;
}

std::string_view LogLine::text(std::size_t field) const {
  std::optional<std::string_view> rest = fields();
  for (std::size_t i = 0; i < field && rest; ++i) rest = cut(*rest).second;
  if (!rest || rest->data() == nullptr) throw lacks(field);
  return cut(*rest).first;
}

EventLog::EventLog(const std::filesystem::path& path, std::size_t threads)
    : path_(path), file_(path) {
  if (file_.bytes().size() > largest_log)
    throw Error({.where = path.string(),
                 .what = fmt::format("has {} bytes, and a log of {} bytes at most is read",
                                     file_.bytes().size(), largest_log),
                 .way_out = "record fewer steps"});
  const std::string_view written = written_part(file_.bytes());
  if (std::ranges::none_of(versions,
                           [&](std::string_view one) { return written.starts_with(one); }))
    throw damaged(path.string(), "is no log of a recording");
  const std::size_t steps = end_of_steps(written);
  end_of_steps_ = written.data() + steps;
  add_pieces(written.substr(0, steps), pieces_);
  add_pieces(written.substr(steps), pieces_);
  for (std::size_t i = 0; i < threads; ++i) read_ahead({});
}

void EventLog::read_ahead(LogPart used) {
  if (begun_ == pieces_.size()) return;
  const auto worth = WorthAThread{pieces_.size() > 1};
  ahead_.push_back(
      in_background(worth, [piece = pieces_[begun_++], used = std::move(used)]() mutable {
        return read_piece(piece, std::move(used));
      }));
}

bool EventLog::next() {
  if (ahead_.empty()) return false;
  LogPart read = ahead_.front().get();
  ahead_.pop_front();
  read_ahead(std::exchange(part_, std::move(read)));
  ++next_;
  for (LogLine& line : part_.lines) line.number += count_;
  count_ += part_.count;
  texts_.insert(texts_.end(), part_.texts.begin(), part_.texts.end());
  if (part_.count > 0) is_whole_ = part_.last == "END";
  return true;
}

std::string_view EventLog::text(std::int64_t number) const {
  if (number < 0 || static_cast<std::size_t>(number) >= texts_.size())
    throw damaged(path_.string(), fmt::format("text {} is not in it", number));
  return texts_[static_cast<std::size_t>(number)];
}

}  // namespace shardscope
