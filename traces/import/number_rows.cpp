#include "traces/import/number_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <vector>

namespace shardscope {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 18;
constexpr std::size_t max_token = 64;
constexpr int max_depth = 64;

bool is_part_of_token(char c) {
  return c != '[' && c != ']' && c != ',' && c != ' ' && c != '\n' && c != '\r' && c != '\t';
}

class RowScanner {
 public:
  RowScanner(std::size_t max_numbers, const std::function<void(const NumberRow&)>& visit)
      : max_numbers_(max_numbers), visit_(visit) {}

  void take(std::string_view text) {
    for (const char c : text) {
      if (is_part_of_token(c)) {
        if (token_.size() < max_token) token_ += c;
        continue;
      }
      end_token();
      if (c == '[') open();
      if (c == ']') close();
    }
  }

  bool is_whole() const { return depth_ == 0 && token_.empty(); }

 private:
  void end_token() {
    if (token_.empty()) return;
    std::int64_t number = 0;
    const char* const end = token_.data() + token_.size();
    const auto [at, error] = std::from_chars(token_.data(), end, number);
    const bool is_number = error == std::errc() && (at == end || is_fraction(at, end));
    if (is_number && numbers_.size() < max_numbers_)
      numbers_.push_back(number);
    else
      is_damaged_ = true;
    token_.clear();
  }

  static bool is_fraction(const char* at, const char* end) {
    return *at == '.' && std::all_of(at + 1, end, [](char c) { return c >= '0' && c <= '9'; });
  }

  void open() {
    depth_ = std::min(depth_ + 1, max_depth);
    numbers_.clear();
    is_damaged_ = false;
    is_innermost_ = true;
  }

  void close() {
    if (is_innermost_) visit_({.depth = depth_, .numbers = numbers_, .is_damaged = is_damaged_});
    is_innermost_ = false;
    depth_ = std::max(depth_ - 1, 0);
  }

  std::size_t max_numbers_;
  const std::function<void(const NumberRow&)>& visit_;
  std::string token_;
  std::vector<std::int64_t> numbers_;
  int depth_ = 0;
  bool is_innermost_ = false;  ///< no array was closed since the last one was opened
  bool is_damaged_ = false;
};

}  // namespace

NumberRowsEnd for_each_number_row(TextInput& input, std::size_t max_numbers,
                                  const std::function<void(const NumberRow&)>& visit) {
  RowScanner scanner(max_numbers, visit);
  std::vector<char> block(block_bytes);
  NumberRowsEnd end;
  for (std::size_t got = block_bytes; got == block_bytes;) {
    got = input.read(block);
    scanner.take({block.data(), got});
    end.text_bytes += static_cast<std::int64_t>(got);
  }
  end.problem = input.problem();
  if (end.problem.empty() && !scanner.is_whole())
    end.problem = fmt::format("cut off after {} bytes", end.text_bytes);
  return end;
}

}  // namespace shardscope
