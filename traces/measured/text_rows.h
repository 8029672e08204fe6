// Lines and fields of the tables that command-line tools print.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace shardscope {

std::string_view trimmed(std::string_view text);

/// Fields between separators, without the blanks around them.
std::vector<std::string_view> fields_between(std::string_view line, char separator);
/// Words between blanks.
std::vector<std::string_view> words_in(std::string_view line);

/// The whole text as a number.
std::optional<double> decimal(std::string_view text);

/// Lines one after another, without their ends.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : rest_(text) {}
  std::optional<std::string_view> next();

 private:
  std::string_view rest_;
};

}  // namespace shardscope
