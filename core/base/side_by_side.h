// What stands side by side: a figure as it was predicted, and as it was measured. The two cannot be
// swapped by accident.
#pragma once

#include <optional>

#include "core/base/quantities.h"

namespace shardscope {

/// A value that the simulator gave.
template <class T>
struct Predicted {
  T value{};
  auto operator<=>(const Predicted&) const = default;
};

/// A value that was measured in a real run.
template <class T>
struct Profiled {
  T value{};
  auto operator<=>(const Profiled&) const = default;
};

/// The two values of one thing.
template <class T>
struct SideBySide {
  Predicted<T> predicted;
  Profiled<T> profiled;
  bool operator==(const SideBySide&) const = default;
};

/// (predicted - profiled) / profiled; none where the profiled value is 0. Example: 110 ms against
/// 100 ms is +0.1.
inline std::optional<double> error_share(SideBySide<double> pair) {
  if (pair.profiled.value == 0) return std::nullopt;
  return (pair.predicted.value - pair.profiled.value) / pair.profiled.value;
}
inline std::optional<double> error_share(SideBySide<Duration> pair) {
  return error_share(SideBySide<double>{{static_cast<double>(pair.predicted.value.ns)},
                                        {static_cast<double>(pair.profiled.value.ns)}});
}
inline std::optional<double> error_share(SideBySide<Bytes> pair) {
  return error_share(SideBySide<double>{{static_cast<double>(pair.predicted.value.count)},
                                        {static_cast<double>(pair.profiled.value.count)}});
}

/// predicted - profiled: above 0 where the prediction is too high.
template <class T>
T difference(const SideBySide<T>& pair) {
  return pair.predicted.value - pair.profiled.value;
}

}  // namespace shardscope
