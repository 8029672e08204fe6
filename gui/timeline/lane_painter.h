// Lanes and ribbons into the lines of a picture.
#pragma once

#include <QColor>
#include <QImage>
#include <array>
#include <span>
#include <vector>

#include "gui/base/theme.h"
#include "gui/data/coverage.h"
#include "gui/data/span_lanes.h"

namespace shardscope::gui {

QColor colour_in(const Theme& theme, SpanColour colour);
/// `share` of `ink`, the rest of `ground`.
QRgb mixed(const QColor& ground, const QColor& ink, double share);

/// How spans are drawn: what was measured is solid, what was predicted hollow, what is only being
/// tried dashed.
enum class LaneLook : std::uint8_t { solid, hollow, dashed };

/// A stretch of a picture's lines, in its own pixels.
struct LaneBand {
  int left = 0, top = 0, height = 0;
};

/// Paints with the colours of one theme. Pixels are those of the image, whatever its
/// devicePixelRatio.
class LanePainter {
 public:
  /// `ground`: one line, what is seen where there is nothing, from the image's left edge.
  LanePainter(QImage& image, const Theme& theme, std::vector<QRgb> ground);

  /// `hatched`: of each pixel, is it exposed communication; empty: none.
  void lane(LaneBand band, const LanePicture& picture, LaneLook look,
            std::span<const bool> hatched = {});
  /// Compute, communication behind it, exposed communication, exposed copies and idle time from
  /// below, to the whole height.
  void ribbon(LaneBand band, std::span<const PixelTimes> pixels, LaneLook look);

 private:
  struct Lines {
    std::vector<QRgb> edge, inner;
  };
  Lines lines_of(LaneBand band, const LanePicture& picture, LaneLook look) const;
  void stroke_wide(LaneBand band, const LanePicture& picture, LaneLook look);
  void column(LaneBand band, int x, const PixelTimes& times, LaneLook look);
  QRgb* line(int y) { return reinterpret_cast<QRgb*>(image_.scanLine(y)); }

  QImage& image_;
  std::vector<QRgb> ground_;
  QRgb hatch_, dots_;
  std::array<QRgb, span_colour_count> full_{};
  std::array<std::array<QRgb, 256>, span_colour_count> solid_{}, tinted_{};
  enum Part { compute, overlapped, exposed, copied, idle, part_count };
  std::array<QRgb, part_count> part_{}, pale_part_{};
};

}  // namespace shardscope::gui
