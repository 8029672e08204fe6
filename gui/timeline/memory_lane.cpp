#include "gui/timeline/memory_lane.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace shardscope::gui {
namespace {

constexpr double pale_share = 0.38;  ///< of the colour, in a predicted band

class MemoryLane {
 public:
  MemoryLane(QImage& image, const Theme& theme, LaneBand band, const MemoryTrack& track, Bytes top)
      : image_(image), band_(band), track_(track), top_(static_cast<double>(top.count)) {
    const bool is_predicted = track.side == SideKind::predicted;
    for (std::size_t i = 0; i < memory_band_count; ++i)
      colours_[i] = mixed(theme.background, theme.of_band(i), is_predicted ? pale_share : 1.0);
    edge_ = theme.ink.rgb();
    reserved_ = theme.faint_ink.rgb();
    has_edge_ = is_predicted;
    for (int y = 0; y < image.height(); ++y)
      lines_.push_back(reinterpret_cast<QRgb*>(image.scanLine(y)));
  }

  void draw(TimeRange range) {
    const auto columns =
        band_columns(track_.curve.begins, track_.curve.levels.end, track_.curve.totals, range,
                     static_cast<std::size_t>(image_.width()));
    for (std::size_t x = 0; x < columns.size(); ++x) {
      if (columns[x].empty()) {
        last_ = {};
        continue;
      }
      column(static_cast<int>(x), track_.curve.levels.levels[columns[x].highest]);
    }
  }

 private:
  struct Heights {
    int total = 0, reserved = 0;
  };

  /// Of so many bytes above the band's foot, in pixels.
  int height_of(Bytes bytes) const {
    const double share = std::clamp(static_cast<double>(bytes.count) / top_, 0.0, 1.0);
    return static_cast<int>(std::lround(share * (band_.height - 1)));
  }

  void put(int x, int height, QRgb colour) {
    const int y = band_.top + band_.height - 1 - height;
    if (y >= 0 && y < image_.height()) lines_[static_cast<std::size_t>(y)][x] = colour;
  }

  void stroke(int x, int from, int to, QRgb colour) {
    for (int h = std::min(from, to); h <= std::max(from, to); ++h) put(x, h, colour);
  }

  void column(int x, const MemoryLevel& level) {
    Bytes sum;
    int below = 0;
    for (std::size_t i = 0; i < memory_band_count; ++i) {
      if (level.bytes[i].count <= 0) continue;
      sum += level.bytes[i];
      const int above = height_of(sum);
      for (int h = below; h < above; ++h) put(x, h, colours_[i]);
      below = above;
    }
    const Heights now{.total = height_of(sum), .reserved = height_of(level.reserved)};
    const Heights before = last_.value_or(now);
    if (level.reserved.count > 0) stroke(x, before.reserved, now.reserved, reserved_);
    if (has_edge_) stroke(x, before.total, now.total, edge_);
    last_ = now;
  }

  QImage& image_;
  LaneBand band_;
  const MemoryTrack& track_;
  double top_;
  std::vector<QRgb*> lines_;
  std::array<QRgb, memory_band_count> colours_{};
  QRgb edge_ = 0, reserved_ = 0;
  bool has_edge_ = false;
  std::optional<Heights> last_;
};

}  // namespace

void draw_memory_lane(QImage& image, const Theme& theme, LaneBand band, const MemoryTrack& track,
                      TimeRange range, Bytes top) {
  MemoryLane(image, theme, band, track, top).draw(range);
}

}  // namespace shardscope::gui
