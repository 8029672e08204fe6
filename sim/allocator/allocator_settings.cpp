#include "sim/allocator/allocator_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/nearest_word.h"

namespace shardscope {
namespace {

constexpr std::int64_t mib = 1'048'576;
/// More than any device has, and far from overflow when added up.
constexpr std::int64_t most_mib = std::int64_t{1} << 30;
constexpr std::int64_t min_large_segment_mib = 10;

/// Words and the signs : , [ ] of a configuration; blanks count for nothing.
std::vector<std::string> tokens_of(std::string_view text) {
  std::vector<std::string> tokens;
  bool in_word = false;
  for (const char c : text) {
    const bool sign = c == ',' || c == ':' || c == '[' || c == ']';
    if (sign) tokens.emplace_back(1, c);
    if (!sign && std::isspace(static_cast<unsigned char>(c))) continue;
    if (!sign && !in_word) tokens.emplace_back();
    if (!sign) tokens.back() += c;
    in_word = !sign;
  }
  return tokens;
}

/// Walks the tokens of one configuration and refuses what is not there.
class Reader {
 public:
  Reader(std::string_view text, std::string_view where) : tokens_(tokens_of(text)), where_(where) {}

  bool done() const { return next_ == tokens_.size(); }
  bool at(std::string_view token) const { return !done() && tokens_[next_] == token; }
  std::string_view take() {
    if (done()) refuse("the text ends too early", "give it as option:value,option:value");
    return tokens_[next_++];
  }
  void expect(std::string_view token) {
    if (!at(token))
      refuse(fmt::format("expected '{}' {}, got {}", token, after(), got()),
             "give it as option:value,option:value");
    ++next_;
  }
  bool boolean() {
    const std::string_view word = take();
    if (word != "True" && word != "False") refuse_value(word, "write True or False");
    return word == "True";
  }
  std::int64_t integer(std::int64_t least, std::int64_t most) {
    const std::string_view word = take();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    const bool whole = error == std::errc{} && end == word.data() + word.size();
    if (!whole || value < least || value > most)
      refuse_value(word, fmt::format("write a whole number from {} to {}", least, most));
    return value;
  }
  double number(double least, double most, bool open) {
    const std::string_view word = take();
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    const bool whole = error == std::errc{} && end == word.data() + word.size();
    const bool inside = open ? value > least && value < most : value >= least && value <= most;
    if (!whole || !inside)
      refuse_value(
          word, fmt::format("write a number {} {} and {}", open ? "between" : "from", least, most));
    return value;
  }
  void skip_value() {
    if (take() != "[") return;
    while (take() != "]") continue;
  }
  void set_option(std::string_view option) { option_ = option; }

  [[noreturn]] void refuse(std::string what, std::string way_out) const {
    throw Error({std::string(where_), std::move(what), std::move(way_out)});
  }
  [[noreturn]] void refuse_value(std::string_view word, std::string way_out) const {
    refuse(fmt::format("{} cannot be \"{}\"", option_, word), std::move(way_out));
  }

 private:
  std::string after() const {
    return next_ == 0 ? "at the start" : fmt::format("after \"{}\"", tokens_[next_ - 1]);
  }
  std::string got() const { return done() ? "the end" : fmt::format("\"{}\"", tokens_[next_]); }

  std::vector<std::string> tokens_;
  std::string_view where_;
  std::string_view option_;
  std::size_t next_ = 0;
};

int divisions(Reader& in, std::int64_t least) {
  const std::int64_t value = in.integer(least, std::int64_t{1} << 20);
  if (value != 0 && !std::has_single_bit(static_cast<std::uint64_t>(value)))
    in.refuse_value(fmt::to_string(value), "write a power of two");
  return static_cast<int>(value);
}

/// One entry of [256:1,512:2,>:8]: the interval is a power of two in MiB, > is all above the last.
struct RoundupFill {
  bool first = true;
  std::size_t last = 0;
};

void read_interval(Reader& in, AllocatorSettings& settings, RoundupFill& fill) {
  auto& by_power = settings.roundup_divisions;
  const bool above = in.at(">");
  std::size_t power = 0;
  if (above) {
    in.take();
  } else {
    const std::int64_t interval = in.integer(1, std::int64_t{1} << 40);
    if (!std::has_single_bit(static_cast<std::uint64_t>(interval)))
      in.refuse_value(fmt::to_string(interval), "write a power of two");
    power = std::min<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(interval)),
                                  by_power.size() - 1);
  }
  in.expect(":");
  const int value = divisions(in, 0);
  if (above) {
    std::fill(by_power.begin() + static_cast<std::ptrdiff_t>(fill.last) + 1, by_power.end(), value);
    return;
  }
  if (fill.first)
    std::fill(by_power.begin(), by_power.begin() + static_cast<std::ptrdiff_t>(power), value);
  fill.first = false;
  by_power[power] = value;
  fill.last = power;
}

void read_roundup(Reader& in, AllocatorSettings& settings) {
  if (!in.at("[")) return settings.roundup_divisions.fill(divisions(in, 1));
  in.take();
  RoundupFill fill;
  while (!in.at("]")) {
    read_interval(in, settings, fill);
    if (!in.at("]")) in.expect(",");
  }
  in.expect("]");
}

Bytes read_mib(Reader& in, std::int64_t least) { return {in.integer(least, most_mib) * mib}; }

void ignore(Reader& in, AllocatorSettings&) { in.skip_value(); }

/// A smaller range of addresses makes a stream's segment several.
void refuse_reserve(Reader& in, AllocatorSettings&) {
  in.refuse("ranges of addresses smaller than the device's memory are not modelled",
            "leave expandable_segments_reserve and _by_class out");
}

/// Without the release of cached segments and the second try.
void refuse_throwing(Reader& in, AllocatorSettings&) {
  if (in.boolean())
    in.refuse("an allocator that gives up at the first refusal of the device is not modelled",
              "leave throw_on_cudamalloc_oom out");
}

struct Option {
  std::string_view name;
  void (*read)(Reader& in, AllocatorSettings& settings);
};

constexpr Option options[] = {
    {"backend",
     [](Reader& in, AllocatorSettings&) {
       const std::string_view word = in.take();
       if (word != "native") in.refuse_value(word, "only the native allocator is modelled");
     }},
    {"expandable_segments",
     [](Reader& in, AllocatorSettings& s) { s.expandable_segments = in.boolean(); }},
    {"expandable_segments_reserve", refuse_reserve},
    {"expandable_segments_reserve_by_class", refuse_reserve},
    {"garbage_collection_threshold",
     [](Reader& in, AllocatorSettings& s) {
       s.garbage_collection_threshold = in.number(0, 1, true);
     }},
    {"graph_capture_record_stream_reuse", ignore},
    {"large_segment_size_mb",
     [](Reader& in, AllocatorSettings& s) {
       s.large_segment = read_mib(in, min_large_segment_mib + 1);
     }},
    {"max_non_split_rounding_mb",
     [](Reader& in, AllocatorSettings& s) {
       s.max_non_split_rounding = read_mib(in, s.large_segment.count / mib);
     }},
    {"max_split_size_mb",
     [](Reader& in, AllocatorSettings& s) {
       s.max_split = read_mib(in, s.large_segment.count / mib);
     }},
    {"per_process_memory_fraction",
     [](Reader& in, AllocatorSettings& s) { s.memory_fraction = in.number(0, 1, false); }},
    {"pinned_free_catch_all", ignore},
    {"pinned_max_cached_size_mb", ignore},
    {"pinned_max_round_threshold_mb", ignore},
    {"pinned_num_register_threads", ignore},
    {"pinned_reserve_segment_size_mb", ignore},
    {"pinned_use_background_threads", ignore},
    {"pinned_use_cuda_host_register", ignore},
    {"pinned_use_hip_host_register", ignore},
    {"release_lock_on_cudamalloc", ignore},
    {"release_lock_on_hipmalloc", ignore},
    {"roundup_power2_divisions", read_roundup},
    {"throw_on_cudamalloc_oom", refuse_throwing},
};

const Option& option_of(Reader& in, std::string_view name) {
  for (const Option& option : options)
    if (option.name == name) return option;
  std::vector<std::string_view> names;
  for (const Option& option : options) names.push_back(option.name);
  const auto near = nearest_word(name, names);
  in.refuse(fmt::format("PyTorch 2.15 knows no option \"{}\"", name),
            near ? fmt::format("did you mean {}?", *near) : "leave it out");
}

/// Reads all options, or (`segments`) large_segment_size_mb alone: the limits of others follow from
/// it wherever it stands.
void read_options(Reader in, AllocatorSettings& settings, bool segments) {
  while (!in.done()) {
    const std::string_view name = in.take();
    const Option& option = option_of(in, name);
    in.set_option(name);
    in.expect(":");
    if (segments == (name == "large_segment_size_mb"))
      option.read(in, settings);
    else
      in.skip_value();
    if (!in.done()) in.expect(",");
  }
}

}  // namespace

AllocatorSettings parse_allocator_settings(std::string_view text, std::string_view where) {
  AllocatorSettings settings;
  const Reader in(text, where);
  read_options(in, settings, true);
  settings.max_non_split_rounding = settings.large_segment;
  read_options(in, settings, false);
  return settings;
}

}  // namespace shardscope
