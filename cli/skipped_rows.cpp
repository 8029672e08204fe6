#include "cli/skipped_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace shardscope {
namespace {

using Reasons = std::vector<std::pair<std::string, std::vector<int>>>;

Reasons reasons_of(std::span<const SkippedRow> rows) {
  Reasons reasons;
  for (const SkippedRow& row : rows) {
    auto found = std::ranges::find(reasons, row.why, [](const auto& r) { return r.first; });
    if (found == reasons.end()) found = reasons.insert(found, {row.why, {}});
    found->second.push_back(row.number);
  }
  return reasons;
}

}  // namespace

std::string skipped_rows_text(std::span<const SkippedRow> rows) {
  constexpr std::ptrdiff_t shown = 8;
  std::string text;
  for (const auto& [why, numbers] : reasons_of(rows)) {
    const auto end = numbers.begin() + std::min(shown, std::ssize(numbers));
    text += fmt::format("not compared: {} row{} ({}{}): {}\n", numbers.size(),
                        numbers.size() == 1 ? "" : "s", fmt::join(numbers.begin(), end, ", "),
                        end == numbers.end() ? "" : ", ...", why);
  }
  return text;
}

}  // namespace shardscope
