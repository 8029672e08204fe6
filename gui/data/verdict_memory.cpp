#include "gui/data/verdict_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "gui/data/memory_bands.h"

namespace shardscope::gui {
namespace {

/// A shard is padded, so that it may be a little more than an n-th.
constexpr double padding_share = 0.02;

bool is_sharded_state(MemoryCategory category) {
  return category == MemoryCategory::parameters || category == MemoryCategory::gradients ||
         category == MemoryCategory::optimizer_states;
}

int nth_of(MemoryCategory category, Bytes before, Bytes after, int ranks) {
  if (!is_sharded_state(category) || after.count <= 0 || after >= before) return 0;
  const double ratio = static_cast<double>(before.count) / static_cast<double>(after.count);
  const int n = static_cast<int>(std::lround(std::min(ratio, 1e6)));
  if (n < 2 || ranks % n != 0) return 0;
  return std::abs(ratio - n) <= padding_share * n ? n : 0;
}

Bytes magnitude(Bytes bytes) { return {std::abs(bytes.count)}; }

}  // namespace

std::vector<CategoryChange> category_changes(const CategoryBytes& before,
                                             const CategoryBytes& after, int ranks) {
  std::vector<CategoryChange> changes;
  for (const MemoryCategory category : memory_categories)
    if (before[category] != after[category])
      changes.push_back({.category = category,
                         .before = before[category],
                         .after = after[category],
                         .nth = nth_of(category, before[category], after[category], ranks)});
  std::stable_sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
    return magnitude(a.change()) > magnitude(b.change());
  });
  return changes;
}

std::string memory_reason(const std::vector<CategoryChange>& changes, Bytes peak_change,
                          Baseline baseline) {
  const bool shrinks = peak_change < Bytes{};
  std::string text;
  for (const CategoryChange& one : changes) {
    const bool same_direction = (one.change() < Bytes{}) == shrinks;
    if (!same_direction || magnitude(one.change()) * 10 < magnitude(peak_change)) continue;
    text += text.empty()
                ? fmt::format("{} {} by {}", band_name(one.category), shrinks ? "shrink" : "grow",
                              rounded_text(magnitude(one.change())))
                : fmt::format(", {} by {}", band_name(one.category),
                              rounded_text(magnitude(one.change())));
    if (one.nth < 2) continue;
    text += baseline == Baseline::whole
                ? fmt::format(" (to 1/{}, a shard of {} ranks)", one.nth, one.nth)
                : fmt::format(" (to 1/{} of the baseline's)", one.nth);
  }
  return text;
}

std::string changes_text(const std::vector<CategoryChange>& changes) {
  std::string text;
  for (const CategoryChange& one : changes)
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", band_name(one.category),
                        one.change() < Bytes{} ? "-" : "+", rounded_text(magnitude(one.change())));
  return text;
}

}  // namespace shardscope::gui
