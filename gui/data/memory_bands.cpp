#include "gui/data/memory_bands.h"

#include <algorithm>
#include <limits>
#include <string>

namespace shardscope::gui {

std::string_view band_name(std::size_t band) {
  static const auto names = [] {
    std::array<std::string, memory_band_count> all;
    for (std::size_t i = 0; i < unknown_band; ++i) {
      all[i] = name_of(memory_categories[i]);
      std::replace(all[i].begin(), all[i].end(), '_', ' ');
    }
    all[unknown_band] = "unknown";
    return all;
  }();
  return names[std::min(band, unknown_band)];
}

std::string_view band_name(MemoryCategory category) {
  return band_name(static_cast<std::size_t>(category));
}

char band_letter(std::size_t band) {
  constexpr std::array<char, memory_band_count> letters{'P', 'G', 'O', 'A', 'C',
                                                        'T', 'W', 'I', 'U'};
  return letters[band];
}

Bytes BandBytes::total(BandSet shown) const {
  Bytes sum;
  for (std::size_t band = 0; band < memory_band_count; ++band)
    if (shown[band]) sum += by[band];
  return sum;
}

BandBytes band_bytes(const CategoryBytes& bytes) {
  BandBytes result;
  std::copy(bytes.by.begin(), bytes.by.end(), result.by.begin());
  return result;
}

BandBytes operator-(const BandBytes& a, const BandBytes& b) {
  BandBytes result;
  for (std::size_t band = 0; band < memory_band_count; ++band) result[band] = a[band] - b[band];
  return result;
}

std::optional<std::size_t> MemoryLevels::at(double time) const {
  if (time >= end) return std::nullopt;
  const auto behind = std::partition_point(levels.begin(), levels.end(),
                                           [&](const MemoryLevel& l) { return l.begin <= time; });
  if (behind == levels.begin()) return std::nullopt;
  return static_cast<std::size_t>(behind - levels.begin()) - 1;
}

MemoryLevels on_axis(MemoryLevels levels, const TimeMap& map) {
  for (MemoryLevel& level : levels.levels) level.begin = map.axis_of(level.begin);
  levels.end = map.axis_of(levels.end);
  return levels;
}

std::optional<std::size_t> peak_level(const MemoryLevels& levels, BandSet shown, double begin,
                                      double end) {
  std::optional<std::size_t> peak;
  Bytes most;
  for (std::size_t i = 0; i < levels.levels.size(); ++i) {
    const MemoryLevel& level = levels.levels[i];
    const double until = i + 1 < levels.levels.size() ? levels.levels[i + 1].begin : levels.end;
    // One that lasts no time counts where it is reached.
    const bool is_in_force = level.begin < end && (until > begin || level.begin >= begin);
    if (!is_in_force) continue;
    const Bytes total = level.bytes.total(shown);
    if (peak && total <= most) continue;
    peak = i;
    most = total;
  }
  return peak;
}

namespace {

/// Goes through the levels of one side that last some time, and then to its end.
class LevelWalk {
 public:
  explicit LevelWalk(const MemoryLevels& levels) : levels_(levels) { skip_empty(); }

  double next() const {
    if (is_over_) return std::numeric_limits<double>::infinity();
    return place_ < levels_.levels.size() ? levels_.levels[place_].begin : levels_.end;
  }
  void step() {
    is_over_ = place_ >= levels_.levels.size();
    now_ = is_over_ ? PairedLevels::none : static_cast<std::uint32_t>(place_);
    ++place_;
    skip_empty();
  }
  std::uint32_t now() const { return now_; }

 private:
  void skip_empty() {
    const auto& all = levels_.levels;
    if (all.empty()) is_over_ = true;
    const auto end_of = [&](std::size_t i) {
      return i + 1 < all.size() ? all[i + 1].begin : levels_.end;
    };
    while (place_ < all.size() && end_of(place_) <= all[place_].begin) ++place_;
  }

  const MemoryLevels& levels_;
  std::size_t place_ = 0;
  std::uint32_t now_ = PairedLevels::none;
  bool is_over_ = false;
};

}  // namespace

PairedLevels paired(const MemoryLevels& predicted, const MemoryLevels& profiled) {
  PairedLevels result;
  LevelWalk a(predicted), b(profiled);
  while (true) {
    const double time = std::min(a.next(), b.next());
    if (time == std::numeric_limits<double>::infinity()) return result;
    if (a.next() == time) a.step();
    if (b.next() == time) b.step();
    result.rows.push_back({.begin = time, .predicted = a.now(), .profiled = b.now()});
  }
}

}  // namespace shardscope::gui
