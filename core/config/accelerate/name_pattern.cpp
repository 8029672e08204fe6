#include "core/config/accelerate/name_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "core/base/refusal.h"
#include "core/base/utf8.h"

namespace shardscope::accelerate {
namespace {

constexpr std::size_t max_pattern = 1024;
constexpr std::size_t max_program = 20'000;
constexpr int max_depth = 100;

Refusal wrong(std::string_view what) {
  return {"error", fmt::format("the pattern is wrong: {}", what)};
}
Error not_understood(std::string_view what) {
  return Error(
      {.where = {},
       .what = fmt::format("the pattern holds {}, which Shardscope does not understand", what),
       .way_out = "write it with groups, classes and repetitions"});
}

}  // namespace

/// Thompson's construction, appended to the program as the pattern is read.
class NamePattern::Compiler {
 public:
  Compiler(std::string_view pattern, std::vector<Instruction>& program)
      : rest_(pattern), program_(program) {}

  void compile() {
    alternatives(0);
    if (!rest_.empty()) throw wrong("an unbalanced ')'");
  }

 private:
  using Program = std::vector<Instruction>;

  bool at(char c) const { return !rest_.empty() && rest_.front() == c; }
  bool take(char c) {
    if (!at(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  char next() {
    if (rest_.empty()) throw wrong("it ends too early");
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  std::size_t add(Instruction instruction) {
    if (program_.size() >= max_program) throw not_understood("too many repetitions");
    program_.push_back(std::move(instruction));
    return program_.size() - 1;
  }

  void alternatives(int depth) {
    if (depth > max_depth) throw not_understood("groups nested too deeply");
    const std::size_t begin = program_.size();
    sequence(depth);
    if (!take('|')) return;
    // split -> first | rest; the first part moves back by one instruction.
    insert_at(begin, {.step = Step::split});
    const std::size_t jump = add({.step = Step::jump});
    program_[begin].next = begin + 1;
    program_[begin].other = program_.size();
    alternatives(depth + 1);
    program_[jump].next = program_.size();
  }

  void sequence(int depth) {
    while (!rest_.empty() && !at('|') && !at(')')) {
      const std::size_t begin = program_.size();
      atom(depth);
      repetitions(begin);
    }
  }

  void atom(int depth) {
    const char c = next();
    if (c == '(') return group(depth);
    if (c == '[') return set_of_class();
    if (c == '\\') return escape();
    if (c == '.') return add_set({.negated = true, .ranges = {{'\n', '\n'}}});
    if (c == '^') return void(add({.step = Step::begin}));
    if (c == '$') return void(add({.step = Step::end}));
    if (c == '*' || c == '+' || c == '?') throw wrong("nothing to repeat");
    add_set({.negated = false, .ranges = {range_of(c, c)}});
  }

  void add_set(Instruction set) { add(std::move(set)); }
  static Range range_of(char first, char last) {
    return {static_cast<unsigned char>(first), static_cast<unsigned char>(last)};
  }

  void group(int depth) {
    if (take('?')) {
      if (take('P')) {
        if (!take('<')) throw not_understood("a reference to a group");
        while (next() != '>') {
        }
      } else if (!take(':')) {
        throw not_understood("a look around or a flag");
      }
    }
    alternatives(depth + 1);
    if (!take(')')) throw wrong("a '(' without ')'");
  }

  /// \d, \w, \s; false: not one of them.
  static bool class_ranges(char letter, std::vector<Range>& ranges) {
    if (letter == 'd')
      ranges.push_back({'0', '9'});
    else if (letter == 's')
      ranges.insert(ranges.end(), {{' ', ' '}, {'\t', '\r'}});
    else if (letter == 'w')
      ranges.insert(ranges.end(), {{'0', '9'}, {'a', 'z'}, {'A', 'Z'}, {'_', '_'}, {0x80, 0xFF}});
    else
      return false;
    return true;
  }

  static char escaped_character(char letter) {
    constexpr std::string_view letters = "ntrfv";
    constexpr std::string_view meanings = "\n\t\r\f\v";
    const std::size_t found = letters.find(letter);
    if (found != std::string_view::npos) return meanings[found];
    const bool is_sign = !((letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
                           (letter >= 'A' && letter <= 'Z'));
    if (!is_sign) throw not_understood(fmt::format("\\{}", letter));
    return letter;
  }

  void escape() {
    const char letter = next();
    std::vector<Range> ranges;
    const char lower = static_cast<char>(letter | 0x20);
    if (letter == 'A') return void(add({.step = Step::begin}));
    if (letter == 'Z') return void(add({.step = Step::end}));
    if (class_ranges(lower, ranges))
      return add_set({.negated = lower != letter, .ranges = std::move(ranges)});
    const char c = escaped_character(letter);
    add_set({.negated = false, .ranges = {range_of(c, c)}});
  }

  void set_of_class() {
    Instruction set{.negated = take('^')};
    for (bool first = true; first || !at(']'); first = false) {
      char c = next();
      if (c == '\\') {
        c = next();
        if (class_ranges(c, set.ranges)) continue;
        if (c == 'D' || c == 'W' || c == 'S') throw not_understood("an opposite inside a class");
        c = escaped_character(c);
      }
      char last = c;
      if (at('-') && rest_.size() > 1 && rest_[1] != ']') {
        rest_.remove_prefix(1);
        last = next();
        if (last == '\\') last = escaped_character(next());
        if (static_cast<unsigned char>(last) < static_cast<unsigned char>(c))
          throw wrong("a range that runs backwards");
      }
      set.ranges.push_back(range_of(c, last));
    }
    next();
    add_set(std::move(set));
  }

  struct Counts {
    int least = 0;
    int most = -1;  ///< -1: any number
  };

  /// "{2,3}"; what is no such thing is literal text, as in Python.
  bool braces(Counts& counts) {
    const std::size_t end = rest_.find('}');
    if (end == std::string_view::npos) return false;
    const std::string_view inside = rest_.substr(1, end - 1);
    const std::size_t comma = std::min(inside.find(','), inside.size());
    const auto number = [](std::string_view digits, int& value) {
      const auto [stop, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), value);
      return error == std::errc() && stop == digits.data() + digits.size();
    };
    const std::string_view low = inside.substr(0, comma);
    const bool has_comma = comma < inside.size();
    const std::string_view high = has_comma ? inside.substr(comma + 1) : std::string_view();
    if (low.empty() && !has_comma) return false;
    if (!low.empty() && !number(low, counts.least)) return false;
    if (!has_comma) counts.most = counts.least;
    if (!high.empty() && !number(high, counts.most)) return false;
    if (counts.most >= 0 && counts.most < counts.least)
      throw wrong("a repetition that is reversed");
    rest_.remove_prefix(end + 1);
    return true;
  }

  void repetitions(std::size_t begin) {
    Counts counts;
    if (take('*'))
      counts = {0, -1};
    else if (take('+'))
      counts = {1, -1};
    else if (take('?'))
      counts = {0, 1};
    else if (!at('{') || !braces(counts))
      return;
    if (at('+')) throw not_understood("a possessive repetition");
    take('?');
    if (at('*') || at('+') || at('?')) throw wrong("a repetition of a repetition");
    repeat(begin, counts);
  }

  void repeat(std::size_t begin, Counts counts) {
    const Program part(program_.begin() + static_cast<std::ptrdiff_t>(begin), program_.end());
    program_.resize(begin);
    if (static_cast<std::size_t>(std::max(counts.least, counts.most)) > max_program)
      throw not_understood("too many repetitions");
    for (int i = 0; i < counts.least; ++i) append(part, begin);
    if (counts.most < 0) {
      const std::size_t split = add({.step = Step::split});
      append(part, begin);
      add({.step = Step::jump, .next = split});
      program_[split].next = split + 1;
      program_[split].other = program_.size();
      return;
    }
    std::vector<std::size_t> splits;
    for (int i = counts.least; i < counts.most; ++i) {
      splits.push_back(add({.step = Step::split}));
      append(part, begin);
    }
    for (const std::size_t split : splits) {
      program_[split].next = split + 1;
      program_[split].other = program_.size();
    }
  }

  void append(const Program& part, std::size_t was_at) {
    const std::size_t shift = program_.size() - was_at;
    for (Instruction instruction : part) {
      instruction.next += shift;
      instruction.other += shift;
      add(std::move(instruction));
    }
  }

  void insert_at(std::size_t place, Instruction instruction) {
    const Program part(program_.begin() + static_cast<std::ptrdiff_t>(place), program_.end());
    program_.resize(place);
    add(std::move(instruction));
    append(part, place);
  }

  std::string_view rest_;
  std::vector<Instruction>& program_;
};

NamePattern::NamePattern(std::string_view pattern) {
  if (pattern.size() > max_pattern)
    throw not_understood(fmt::format("more than {} characters", max_pattern));
  Compiler(pattern, program_).compile();
}

/// Adds the states that read a character, reached from `at` without reading one.
void NamePattern::follow(std::size_t at, std::size_t position, std::size_t length,
                         std::vector<char>& active, std::vector<std::size_t>& states) const {
  std::vector<std::size_t> waiting{at};
  while (!waiting.empty()) {
    const std::size_t state = waiting.back();
    waiting.pop_back();
    if (active[state] != 0) continue;
    active[state] = 1;
    if (state == program_.size() || program_[state].step == Step::set) {
      states.push_back(state);
      continue;
    }
    const Instruction& i = program_[state];
    if (i.step == Step::split)
      waiting.insert(waiting.end(), {i.other, i.next});
    else if (i.step == Step::jump)
      waiting.push_back(i.next);
    else if (i.step == Step::begin ? position == 0 : position == length)
      waiting.push_back(state + 1);
  }
}

bool NamePattern::matches(std::string_view name) const {
  std::vector<std::size_t> states;
  std::vector<char> active(program_.size() + 1, 0);
  follow(0, 0, name.size(), active, states);
  for (std::size_t position = 0; position < name.size(); ++position) {
    const auto c = static_cast<unsigned char>(name[position]);
    std::vector<std::size_t> reached;
    active.assign(program_.size() + 1, 0);
    for (const std::size_t state : states) {
      if (state == program_.size()) continue;
      const Instruction& set = program_[state];
      const bool inside = std::any_of(set.ranges.begin(), set.ranges.end(),
                                      [&](const Range& r) { return c >= r.first && c <= r.last; });
      if (inside != set.negated) follow(state + 1, position + 1, name.size(), active, reached);
    }
    states = std::move(reached);
  }
  return std::find(states.begin(), states.end(), program_.size()) != states.end();
}

}  // namespace shardscope::accelerate
