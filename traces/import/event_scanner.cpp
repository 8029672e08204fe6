#include "traces/import/event_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/error.h"
#include "core/base/quantities.h"

namespace shardscope {
namespace {

constexpr std::size_t block_bytes = std::size_t{4} << 20;
constexpr std::ptrdiff_t max_item_bytes = std::ptrdiff_t{32} << 20;
constexpr std::ptrdiff_t look_around = 256;  ///< white space and a key tell where an event begins
constexpr std::ptrdiff_t max_indent = 64;
/// Bytes that may be looked at in vain: this many, and as many again for each byte of the text.
constexpr std::int64_t vain_bytes = std::int64_t{64} << 20;
constexpr std::int64_t vain_share = 4;

/// Part of the text, in one piece, with a zero byte behind it.
class Window {
 public:
  Window(TextInput& input, TextStore& store, std::int64_t max_bytes)
      : input_(input), store_(store), max_bytes_(max_bytes), buffer_(1, '\0') {}

  const char* begin() const { return buffer_.data(); }
  const char* end() const { return buffer_.data() + size_; }
  bool is_last() const { return is_last_; }
  std::uint64_t offset_of(const char* at) const {
    return offset_ + static_cast<std::uint64_t>(at - buffer_.data());
  }
  std::int64_t text_bytes() const { return static_cast<std::int64_t>(offset_ + size_); }

  /// Reads on and forgets what stands before `keep`; returns where `keep` is now.
  const char* more(const char* keep) {
    const auto kept = static_cast<std::size_t>(end() - keep);
    if (buffer_.size() < kept + block_bytes + 1) {
      std::vector<char> larger(kept * 2 + block_bytes + 1);
      std::memcpy(larger.data(), keep, kept);
      offset_ += size_ - kept;
      buffer_ = std::move(larger);
    } else {
      offset_ += size_ - kept;
      std::memmove(buffer_.data(), keep, kept);
    }
    const std::size_t got = input_.read({buffer_.data() + kept, block_bytes});
    is_last_ = got < block_bytes;
    size_ = kept + got;
    buffer_[size_] = '\0';
    if (store_.is_temporary()) store_.append({buffer_.data() + kept, got});
    if (text_bytes() > max_bytes_) {
      throw Error({.what = fmt::format("more than {} of text", rounded_text(Bytes{max_bytes_})),
                   .way_out = "write fewer steps to one trace"});
    }
    return buffer_.data();
  }

 private:
  TextInput& input_;
  TextStore& store_;
  std::int64_t max_bytes_;
  std::vector<char> buffer_;
  std::size_t size_ = 0;
  std::uint64_t offset_ = 0;
  bool is_last_ = false;
};

struct Field {
  std::string_view key;
  std::string_view RawEvent::*text;
};
constexpr std::array<Field, 9> fields{{{"ph", &RawEvent::phase},
                                       {"cat", &RawEvent::category},
                                       {"name", &RawEvent::name},
                                       {"pid", &RawEvent::process},
                                       {"tid", &RawEvent::thread},
                                       {"ts", &RawEvent::start},
                                       {"dur", &RawEvent::duration},
                                       {"args", &RawEvent::arguments},
                                       {"id", &RawEvent::id}}};

void set_field(RawEvent& event, std::string_view key, std::string_view value) {
  for (const Field& field : fields) {
    if (field.key == key) {
      event.*field.text = value;
      return;
    }
  }
}

/// `start` becomes where the event's brace stands.
Scan scan_event(JsonScanner& scanner, RawEvent& event, const char*& start) {
  start = scanner.at();
  if (!scanner.take('{')) return scanner.missing();
  std::string_view key, value;
  while (scanner.peek() != '}') {
    Scan scan = scanner.key(key);
    if (scan == Scan::ok) scan = scanner.value(value);
    if (scan != Scan::ok) return scan;
    set_field(event, key, value);
    if (!scanner.take(',') && scanner.peek() != '}') return scanner.missing();
  }
  scanner.take('}');
  return Scan::ok;
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// The last byte before `at` that is no white space; zero if there is none near.
char before(const char* begin, const char* at) {
  const char* nearest = begin + std::max<std::ptrdiff_t>(at - begin - max_indent, 0);
  while (at > nearest && is_space(at[-1])) --at;
  return at > begin ? at[-1] : '\0';
}

std::string_view behind(const char* at, const char* end) {
  while (at < end && is_space(*at)) ++at;
  return {at, static_cast<std::size_t>(end - at)};
}

/// Does an event begin at the brace `at`: it follows no colon, and a key of events comes next.
bool begins_event(const Window& window, const char* at) {
  if (before(window.begin(), at) == ':') return false;
  std::string_view rest = behind(at + 1, window.end());
  if (!rest.starts_with('"')) return false;
  rest.remove_prefix(1);
  return std::any_of(fields.begin(), fields.end(), [&](const Field& field) {
    return rest.starts_with(field.key) && rest.substr(field.key.size()).starts_with('"');
  });
}

/// Does the bracket `at` end the array of events: an event stands before it, a key or the end of
/// the file's object behind it.
bool ends_events(const Window& window, const char* at) {
  if (before(window.begin(), at) != '}') return false;
  const std::string_view rest = behind(at + 1, window.end());
  if (rest.starts_with('}')) return true;
  return rest.starts_with(',') && behind(rest.data() + 1, window.end()).starts_with('"');
}

class Scanner {
 public:
  Scanner(Window& window, EventSink& sink)
      : window_(window), sink_(sink), json_(window.begin(), window.end()) {}

  bool run() {
    read_on();
    skip_byte_order_mark();
    if (json_.take('[')) {
      scan_events();
    } else if (json_.take('{')) {
      scan_top();
    } else {
      sink_.remark("the file does not begin like JSON");
      if (recover()) scan_events();
    }
    do {
      json_.move_to(window_.end());
    } while (read_on());
    sink_.end({.bytes = window_.text_bytes(), .scanned = scanned_});
    return !is_stopped_;
  }

 private:
  /// Reads on from where the scanner is; false at the end of the text.
  bool read_on() {
    if (window_.is_last() || is_stopped_) return false;
    is_stopped_ = sink_.progress(window_.text_bytes());
    if (is_stopped_) return false;
    const char* at = window_.more(json_.at());
    json_ = JsonScanner(at, window_.end());
    return true;
  }

  char next() {
    while (json_.peek() == '\0' && json_.at_end() && read_on()) {
    }
    return json_.peek();
  }

  /// Takes one item with `step`, which may need more text than there is; where it fails, the
  /// scanner is at the item's start again.
  template <class Step>
  Scan whole(const Step& step) {
    for (;;) {
      const char* start = json_.at();
      json_.clear_notes();
      const Scan scan = step();
      scanned_ += json_.at() - start;
      if (scan == Scan::ok) return scan;
      failed_bytes_ = json_.at() - start;
      in_vain_ += failed_bytes_;
      json_.move_to(start);
      const std::ptrdiff_t seen = window_.end() - start;
      if (scan == Scan::bad || seen > max_item_bytes) return Scan::bad;
      if (!read_until(std::min(2 * seen, max_item_bytes + 1))) return scan;
    }
  }

  /// Reads on until so much text stands behind the scanner, which must not come back for less: each
  /// time it begins anew. False if nothing could be read.
  bool read_until(std::ptrdiff_t bytes) {
    if (!read_on()) return false;
    while (window_.end() - json_.at() < bytes && read_on()) {
    }
    return !is_stopped_;
  }

  void skip_byte_order_mark() {
    const std::string_view text(json_.at(), static_cast<std::size_t>(window_.end() - json_.at()));
    if (text.starts_with("\xEF\xBB\xBF")) json_.move_to(json_.at() + 3);
  }

  void scan_top() {
    while (next() != '}') {
      if (json_.take(',')) continue;
      std::string_view text;
      const Scan scan = whole([&] { return json_.key(text); });
      const std::string key(text);
      if (scan != Scan::ok) return leave_top(scan);
      if (key == "traceEvents" && next() == '[') {
        json_.take('[');
        if (!scan_events()) return;
      } else if (const Scan read = whole([&] { return json_.value(text); }); read == Scan::ok) {
        sink_.header(key, text);
      } else {
        return leave_top(read);
      }
    }
  }

  void leave_top(Scan scan) {
    if (is_stopped_) return;
    sink_.remark(scan == Scan::cut ? "the file is cut off" : "a damaged key beside the events");
    if (recover()) scan_events();
  }

  /// Behind the array's bracket; true where the array ends as it should.
  bool scan_events() {
    for (;;) {
      const char c = next();
      if (json_.at_end()) break;
      if (c == ']') return json_.take(']');
      if (json_.take(',')) continue;
      std::string_view ignored;
      if (c == '{') {
        if (!scan_one()) break;
      } else if (whole([&] { return json_.value(ignored); }) == Scan::ok) {
        sink_.lost("not an object");
      } else if (is_stopped_ || !lose()) {
        break;
      }
    }
    if (!is_stopped_) sink_.remark("the file is cut off");
    return false;
  }

  /// False where nothing follows.
  bool scan_one() {
    RawEvent event;
    const char* start = nullptr;
    const Scan scan = whole([&] { return event = {}, scan_event(json_, event, start); });
    if (is_stopped_) return false;
    if (scan != Scan::ok) return lose();
    event.offset = window_.offset_of(start);
    event.length = static_cast<std::uint32_t>(json_.at() - start);
    event.notes = json_.notes();
    sink_.event(event);
    return true;
  }

  bool lose() {
    const bool found = recover();
    if (!is_stopped_) sink_.lost(found ? "damaged JSON" : "damaged JSON or cut off at the end");
    return found;
  }

  /// How far a damaged item is passed over before the next is looked for: its first byte, as events
  /// may begin inside it, each of which can be as damaged. Once much was read in vain, all that was
  /// read of it: no text is read a hundred times.
  std::ptrdiff_t passed_over() const {
    const std::int64_t most = vain_bytes + vain_share * window_.text_bytes();
    return in_vain_ <= most ? 1 : std::max<std::ptrdiff_t>(failed_bytes_, 1);
  }

  /// Goes from a damaged item to where the next event begins, or the array ends; false where
  /// neither follows.
  bool recover() {
    std::ptrdiff_t skip = passed_over();
    for (;;) {
      const char* end = window_.end();
      const char* stop = window_.is_last() ? end : std::max(json_.at(), end - look_around);
      for (const char* at = json_.at() + std::min(skip, end - json_.at()); at < stop; ++at) {
        const bool is_found =
            *at == '{' ? begins_event(window_, at) : *at == ']' && ends_events(window_, at);
        if (!is_found) continue;
        json_.move_to(at);
        return true;
      }
      if (window_.is_last()) return json_.move_to(end), false;
      const char* kept = std::max(json_.at(), stop - max_indent);
      skip = std::max<std::ptrdiff_t>(stop - kept, skip - (kept - json_.at()));
      json_.move_to(kept);
      if (!read_on()) return false;
    }
  }

  Window& window_;
  EventSink& sink_;
  JsonScanner json_;
  bool is_stopped_ = false;
  std::int64_t scanned_ = 0;
  std::int64_t in_vain_ = 0;         ///< of these, for items that were not whole
  std::ptrdiff_t failed_bytes_ = 0;  ///< of the last of them
};

}  // namespace

bool scan_events(TextInput& input, TextStore& store, std::int64_t max_text_bytes, EventSink& sink) {
  Window window(input, store, max_text_bytes);
  const bool is_whole = Scanner(window, sink).run();
  if (const std::string problem = input.problem(); !problem.empty()) sink.remark(problem);
  return is_whole;
}

}  // namespace shardscope
