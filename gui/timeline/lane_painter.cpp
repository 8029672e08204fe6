#include "gui/timeline/lane_painter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace shardscope::gui {
namespace {

constexpr double least_ink = 0.35;   ///< of a pixel in which something is, however short
constexpr double hollow_ink = 0.16;  ///< inside an outline
constexpr double pale_ink = 0.4;     ///< inside a predicted ribbon
constexpr int hatch_period = 6;      ///< pixels
constexpr int dash = 4;              ///< pixels

OperationKind kind_of(SpanColour colour) {
  switch (colour) {
    case SpanColour::gather:
      return OperationKind::all_gather;
    case SpanColour::reduce:
    case SpanColour::exchange:
      return OperationKind::all_reduce;
    case SpanColour::copy:
      return OperationKind::copy;
    default:
      return OperationKind::compute;
  }
}

}  // namespace

QRgb mixed(const QColor& ground, const QColor& ink, double share) {
  const auto mix = [share](int a, int b) {
    return static_cast<int>(std::lround(a + (b - a) * share));
  };
  return qRgb(mix(ground.red(), ink.red()), mix(ground.green(), ink.green()),
              mix(ground.blue(), ink.blue()));
}

QColor colour_in(const Theme& theme, SpanColour colour) {
  switch (colour) {
    case SpanColour::forward:
      return theme.of(OperationKind::compute, Phase::forward);
    case SpanColour::backward:
      return theme.of(OperationKind::compute, Phase::backward);
    case SpanColour::optimizer:
      return theme.of(OperationKind::compute, Phase::optimizer);
    case SpanColour::compute:
      return theme.of(SpanClass::compute);
    case SpanColour::host:
      return theme.of(SpanClass::host);
    case SpanColour::annotation:
      return theme.of(SpanClass::annotation);
    default:
      return theme.of(kind_of(colour), Phase::other);
  }
}

LanePainter::LanePainter(QImage& image, const Theme& theme, std::vector<QRgb> ground)
    : image_(image),
      ground_(std::move(ground)),
      hatch_(theme.ink.rgb()),
      dots_(theme.background.rgb()) {
  for (std::size_t c = 0; c < span_colour_count; ++c) {
    const QColor colour = colour_in(theme, static_cast<SpanColour>(c));
    full_[c] = colour.rgb();
    for (std::size_t busy = 0; busy < 256; ++busy) {
      const double ink = least_ink + (1 - least_ink) * static_cast<double>(busy) / 255;
      solid_[c][busy] = mixed(theme.lane, colour, ink);
      tinted_[c][busy] = mixed(theme.lane, colour, ink * hollow_ink);
    }
  }
  const std::array<QColor, part_count> parts{theme.of(SpanClass::compute),
                                             theme.of(OperationKind::compute, Phase::backward),
                                             theme.exposed, theme.of(SpanClass::copy), theme.idle};
  for (std::size_t i = 0; i < part_count; ++i) {
    part_[i] = parts[i].rgb();
    pale_part_[i] = mixed(theme.background, parts[i], pale_ink);
  }
}

LanePainter::Lines LanePainter::lines_of(LaneBand band, const LanePicture& picture,
                                         LaneLook look) const {
  const auto from = ground_.begin() + band.left;
  Lines lines{.edge = {from, from + static_cast<std::ptrdiff_t>(picture.pixels.size())}};
  lines.inner = lines.edge;
  for (std::size_t x = 0; x < picture.pixels.size(); ++x) {
    const LanePixel pixel = picture.pixels[x];
    if (pixel.colour == LanePixel::blank) continue;
    const QRgb solid = solid_[pixel.colour][pixel.busy];
    if (look != LaneLook::dashed || x / dash % 2 == 0) lines.edge[x] = solid;
    if (look == LaneLook::solid) lines.inner[x] = solid;
    if (look == LaneLook::hollow) lines.inner[x] = tinted_[pixel.colour][pixel.busy];
  }
  return lines;
}

void LanePainter::lane(LaneBand band, const LanePicture& picture, LaneLook look,
                       std::span<const bool> hatched) {
  const int bottom = std::min(band.top + band.height, image_.height());
  const Lines lines = lines_of(band, picture, look);
  const std::size_t bytes = lines.edge.size() * sizeof(QRgb);
  for (int y = std::max(0, band.top); y < bottom; ++y) {
    const bool is_edge = y == band.top || y == band.top + band.height - 1;
    QRgb* to = line(y) + band.left;
    std::memcpy(to, is_edge ? lines.edge.data() : lines.inner.data(), bytes);
    if (is_edge) continue;
    for (std::size_t x = 0; x < hatched.size(); ++x)
      if (hatched[x] && (static_cast<int>(x) + y) % hatch_period == 0) to[x] = hatch_;
  }
  stroke_wide(band, picture, look);
}

void LanePainter::stroke_wide(LaneBand band, const LanePicture& picture, LaneLook look) {
  const int top = std::max(0, band.top), bottom = std::min(band.top + band.height, image_.height());
  for (const WideSpan& wide : picture.wide) {
    const std::uint8_t colour = picture.pixels[static_cast<std::size_t>(wide.left + 1)].colour;
    if (colour == LanePixel::blank) continue;
    const QRgb ink =
        look == LaneLook::solid ? QColor(full_[colour]).darker(135).rgb() : full_[colour];
    for (int y = top; y < bottom; ++y) {
      if (look == LaneLook::dashed && y / dash % 2 == 1) continue;
      line(y)[band.left + wide.left] = ink;
      if (look != LaneLook::solid) line(y)[band.left + wide.right - 1] = ink;
    }
  }
}

void LanePainter::column(LaneBand band, int x, const PixelTimes& times, LaneLook look) {
  const std::array<std::int64_t, part_count> lengths{times.compute - times.overlapped,
                                                     times.overlapped, times.communication,
                                                     times.copy, times.idle};
  std::int64_t all = 0;
  for (const std::int64_t length : lengths) all += length;
  if (all <= 0) return;
  std::int64_t sum = 0;
  int below = band.top + band.height;
  for (std::size_t part = 0; part < part_count; ++part) {
    sum += lengths[part];
    const int above = band.top + band.height -
                      static_cast<int>(std::llround(static_cast<double>(sum) * band.height /
                                                    static_cast<double>(all)));
    for (int y = std::max(0, above); y < std::min(below, image_.height()); ++y) {
      const bool is_outline = y == above && part != idle;
      QRgb colour = look == LaneLook::solid || is_outline ? part_[part] : pale_part_[part];
      if (part == exposed && (x + y) % hatch_period == 0) colour = hatch_;
      if (part == overlapped && x % 4 == 0 && y % 4 == 0) colour = dots_;
      if (part == copied && y % 3 == 0) colour = hatch_;
      line(y)[band.left + x] = colour;
    }
    below = above;
  }
}

void LanePainter::ribbon(LaneBand band, std::span<const PixelTimes> pixels, LaneLook look) {
  const auto length = [](const PixelTimes& p) {
    return p.compute + p.communication + p.copy + p.idle;
  };
  // Where pixels are shorter than a nanosecond some have no time at all: they show the next one's.
  std::size_t next = 0;
  for (std::size_t x = 0; x < pixels.size(); ++x) {
    next = std::max(next, x);
    while (next + 1 < pixels.size() && length(pixels[next]) == 0) ++next;
    column(band, static_cast<int>(x), pixels[next], look);
  }
}

}  // namespace shardscope::gui
