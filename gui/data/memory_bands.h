// Memory over time in bands, one on the other: what the memory view draws, whatever it was read
// from.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/quantities.h"
#include "core/schedule/schedule.h"
#include "gui/data/time_map.h"

namespace shardscope::gui {

/// The memory categories in their order, then what imports cannot say the category of.
inline constexpr std::size_t memory_band_count = memory_category_count + 1;
inline constexpr std::size_t unknown_band = memory_category_count;
/// In words for people: "optimizer states".
std::string_view band_name(std::size_t band);
std::string_view band_name(MemoryCategory category);
/// One letter that no other band has, beside its colour.
char band_letter(std::size_t band);

/// Bands that are shown.
using BandSet = std::bitset<memory_band_count>;
inline const BandSet all_bands = BandSet().set();

struct BandBytes {
  std::array<Bytes, memory_band_count> by{};

  Bytes& operator[](std::size_t band) { return by[band]; }
  Bytes operator[](std::size_t band) const { return by[band]; }
  Bytes total(BandSet shown = all_bands) const;
  bool operator==(const BandBytes&) const = default;
};
BandBytes band_bytes(const CategoryBytes& bytes);
BandBytes operator-(const BandBytes& a, const BandBytes& b);

/// What is held from `begin` to the next level's.
struct MemoryLevel {
  static constexpr std::uint32_t no_event = UINT32_MAX;

  double begin = 0;  ///< nanoseconds of the source's clock, or of the axis
  BandBytes bytes;
  Bytes active, reserved;          ///< 0: not known
  OperationId operation;           ///< that changed it; none: not known, or between steps
  std::uint32_t event = no_event;  ///< of a memory snapshot: the last one that counts
};

/// By time; levels that begin at once are there one after the other, so that no peak is lost.
struct MemoryLevels {
  std::vector<MemoryLevel> levels;
  double end = 0;  ///< of the last level

  bool empty() const { return levels.empty(); }
  /// In force at `time`; none before the first and from `end` on.
  std::optional<std::size_t> at(double time) const;
};

MemoryLevels on_axis(MemoryLevels levels, const TimeMap& map);

/// Index of the highest total of the levels that are in force in [begin, end), the first of equal
/// ones; none where there are none.
std::optional<std::size_t> peak_level(const MemoryLevels& levels, BandSet shown, double begin,
                                      double end);

/// Two sources over one axis: every time at which either changes, levels that last no time left
/// out.
struct PairedLevels {
  static constexpr std::uint32_t none = UINT32_MAX;  ///< that side has no level then

  struct Row {
    double begin = 0;
    std::uint32_t predicted = none, profiled = none;  ///< indices of levels
  };
  std::vector<Row> rows;
};
PairedLevels paired(const MemoryLevels& predicted, const MemoryLevels& profiled);

}  // namespace shardscope::gui
