#include "gui/data/fuzzy_match.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <string>
#include <vector>

namespace shardscope::gui {
namespace {

constexpr int at_a_word = 8, after_the_last = 6, elsewhere = 1;
constexpr int impossible = std::numeric_limits<int>::min() / 2;
constexpr std::size_t most_letters = 200;  ///< that are looked at: work is their product

std::string letters_of(std::string_view text) {
  std::string letters;
  for (const char c : text.substr(0, most_letters))
    if (c != ' ') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

bool begins_word(std::string_view text, std::size_t i) {
  return i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0;
}

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

}  // namespace

std::optional<int> fuzzy_score(std::string_view typed, std::string_view text) {
  const std::string letters = letters_of(typed);
  text = text.substr(0, most_letters);
  // best[j]: of the letters so far, the last one lying at text[j].
  std::vector<int> best(text.size(), 0);
  int total = 0;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    std::vector<int> next(text.size(), impossible);
    int before = i == 0 ? 0 : impossible;  // the best that ends left of j - 1
    for (std::size_t j = 0; j < text.size(); ++j) {
      if (i > 0 && j > 1) before = std::max(before, best[j - 2]);
      if (lower(text[j]) != letters[i]) continue;
      const int adjacent = i > 0 && j > 0 ? best[j - 1] + after_the_last : impossible;
      const int apart = std::max(before, i > 0 && j > 0 ? best[j - 1] : impossible) +
                        (begins_word(text, j) ? at_a_word : elsewhere);
      next[j] = std::max(adjacent, apart);
    }
    best = std::move(next);
    total = best.empty() ? impossible : *std::max_element(best.begin(), best.end());
    if (total < 0) return std::nullopt;
  }
  constexpr int weight = 1000;  // the text's length only decides between equals
  return total * weight - static_cast<int>(text.size());
}

}  // namespace shardscope::gui
