#include "core/base/nearest_word.h"

#include <algorithm>
#include <numeric>

namespace shardscope {
namespace {

constexpr std::size_t longest_compared = 64;  // the cost is the product of the lengths

/// Levenshtein's distance: insertions, deletions and replacements.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::vector<std::string_view> parts_of(std::string_view word) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = word.find('_');
    parts.push_back(word.substr(0, end));
    if (end == std::string_view::npos) return parts;
    word.remove_prefix(end + 1);
  }
}

/// "pipeline_parallel_size" is another word than "sequence_parallel_size", not a mistyped one.
bool differs_in_a_part(std::string_view word, std::string_view candidate) {
  const auto a = parts_of(word), b = parts_of(candidate);
  if (a.size() < 2 || a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (edit_distance(a[i], b[i]) > std::max<std::size_t>(2, a[i].size() / 2)) return true;
  return false;
}

}  // namespace

std::optional<std::string_view> nearest_word(std::string_view word,
                                             const std::vector<std::string_view>& known) {
  if (word.size() > longest_compared) return std::nullopt;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  std::optional<std::string_view> best;
  for (std::string_view candidate : known) {
    if (candidate.size() > longest_compared) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= best_distance || distance >= candidate.size()) continue;
    if (differs_in_a_part(word, candidate)) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

}  // namespace shardscope
