// Why the peak of one side differs from another's, by category.
#pragma once

#include <string>
#include <vector>

#include "gui/data/strategy_rows.h"

namespace shardscope::gui {

/// One category's bytes at the peak of either.
struct CategoryChange {
  MemoryCategory category = MemoryCategory::parameters;
  Bytes before, after;
  /// P, G or OS are an n-th of what they were, n above 1 dividing the ranks: what sharding over n
  /// times as many ranks does. 0: not so.
  int nth = 0;

  Bytes change() const { return after - before; }
  bool operator==(const CategoryChange&) const = default;
};

/// Categories that differ, the largest change first.
std::vector<CategoryChange> category_changes(const CategoryBytes& before,
                                             const CategoryBytes& after, int ranks);

/// Whether every rank of the baseline has all of P, G and OS, so that an n-th of them is a shard of
/// n ranks.
enum class Baseline : bool { whole, sharded };

/// "optimizer states shrink by 18.6 MiB (to 1/2, a shard of 2 ranks), parameters by 3.26 MiB": the
/// changes in the direction of the peak's that make at least a tenth of it; "" of none. Beside a
/// sharded baseline "(to 1/2 of the baseline's)".
std::string memory_reason(const std::vector<CategoryChange>& changes, Bytes peak_change,
                          Baseline baseline);

/// "optimizer states -18.6 MiB, parameters +3.26 MiB": all of them.
std::string changes_text(const std::vector<CategoryChange>& changes);

}  // namespace shardscope::gui
