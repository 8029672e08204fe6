// Regular expressions over module names, as Python's re.fullmatch answers them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace shardscope::accelerate {

/// A pattern compiled to a machine that reads a name once: time is names times size of the pattern,
/// whatever the pattern. Understood: literals, '.', classes [a-z] and [^...], \d \w \s and their
/// opposites, \. and other escaped signs, groups (...), (?:...) and (?P<name>...), '|', * + ? {m,n}
/// greedy or lazy, ^ $ \A \Z. Other syntax, such as references and looking around, is an Error;
/// what Python refuses raises "error", its name of a wrong pattern. At most 1024 characters.
class NamePattern {
 public:
  explicit NamePattern(std::string_view pattern);
  /// re.compile(pattern).fullmatch(name)
  bool matches(std::string_view name) const;

 private:
  class Compiler;
  struct Range {
    unsigned char first, last;
  };
  enum class Step : std::uint8_t { set, split, jump, begin, end };
  struct Instruction {
    Step step = Step::set;
    bool negated = false;
    std::vector<Range> ranges;
    std::size_t next = 0, other = 0;  ///< of split: both; of jump: next
  };
  void follow(std::size_t at, std::size_t position, std::size_t length, std::vector<char>& active,
              std::vector<std::size_t>& states) const;

  std::vector<Instruction> program_;  ///< matches at its end
};

}  // namespace shardscope::accelerate
