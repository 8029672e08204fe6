// The checking mode's watch over the arena: canaries behind live buffers, poison in dead ranges.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope {

/// Bytes behind each buffer that nobody may write; the `gap` of the arena's layout.
inline constexpr Bytes canary_bytes{64};

/// Poison is all bits set: a NaN as float32 and float64, a token id that no vocabulary has as
/// int32. `arena`, `schedule` and `layout` must outlive the guard.
class ArenaGuard {
 public:
  /// Poisons everything but the persistent buffers, and puts canaries behind those.
  ArenaGuard(const Schedule& schedule, const ArenaLayout& layout, std::span<std::byte> arena);

  void became_live(BufferId buffer);
  /// False if its canary is damaged; then or otherwise, the range is poisoned.
  [[nodiscard]] bool became_dead(BufferId buffer);
  /// A persistent buffer whose canary is damaged, if there is one.
  std::optional<BufferId> damaged_persistent() const;

 private:
  std::span<std::byte> canary_of(BufferId buffer) const;

  const Schedule& schedule_;
  const ArenaLayout& layout_;
  std::span<std::byte> arena_;
  std::vector<BufferId> persistent_;
};

}  // namespace shardscope
