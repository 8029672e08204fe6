// What a rank tells the others of its windows' traces.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace shardscope {

/// A window whose trace a rank could not leave.
struct LostTrace {
  std::int64_t first_step = 0;  ///< of the window
  std::string reason;           ///< one line
  bool operator==(const LostTrace&) const = default;
};

/// The windows that a rank is done with: it has left its trace, or has failed to. Goes through the
/// job's store as text, one key a rank, however many windows there are.
struct WindowsDone {
  std::int64_t last = 0;       ///< the first step of the last one
  std::deque<LostTrace> lost;  ///< the last ones, in their order

  /// `reason`: why there is no trace; "" where it was left.
  void add(std::int64_t first_step, std::string_view reason);
  /// Null: not known to be lost.
  const LostTrace* find(std::int64_t first_step) const;
  bool operator==(const WindowsDone&) const = default;
};

std::string to_text(const WindowsDone& done);
/// Of what to_text() gave.
WindowsDone windows_done_of(std::string_view text);

}  // namespace shardscope
