#include "gui/timeline/timeline_frame.h"

#include <QFontMetricsF>
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <map>

#include "gui/base/short_name.h"
#include "gui/base/text.h"
#include "gui/data/pixel_edges.h"
#include "gui/data/time_ticks.h"
#include "gui/timeline/lane_painter.h"
#include "gui/timeline/memory_lane.h"

namespace shardscope::gui {
namespace {

constexpr int least_text_width = 26;  ///< logical pixels
constexpr std::size_t most_labels = 600;

struct SpanLabel {
  QRectF place;  ///< logical pixels
  QString text;
  QColor ink;
};

class Frame {
 public:
  Frame(const TimelineData& data, const TimelineRows& rows, const FrameRequest& request,
        const Theme& theme)
      : data_(data),
        rows_(rows),
        request_(request),
        theme_(theme),
        width_(std::max(1, static_cast<int>(std::lround(request.size.width() * request.ratio)))),
        image_(width_,
               std::max(1, static_cast<int>(std::lround(request.size.height() * request.ratio))),
               QImage::Format_RGB32),
        ground_(ground()),
        painter_(image_, theme, ground_) {
    image_.setDevicePixelRatio(request.ratio);
    for (int y = 0; y < image_.height(); ++y)
      std::copy(ground_.begin(), ground_.end(), reinterpret_cast<QRgb*>(image_.scanLine(y)));
  }

  QImage draw() {
    for (const TimelineRow& row : rows_.rows) {
      const double top = row.top - request_.scroll + rows_.pinned_height;
      if (top + row.height <= rows_.pinned_height) continue;
      if (top >= request_.size.height()) break;
      draw_row(row, top);
    }
    clear_under_pinned();
    for (const TimelineRow& row : rows_.pinned) draw_row(row, row.top);
    draw_labels();
    return std::move(image_);
  }

 private:
  std::vector<QRgb> ground() const {
    std::vector<QRgb> line(static_cast<std::size_t>(width_), theme_.background.rgb());
    const int wanted = std::max(2, request_.size.width() / 110);
    for (const TimeTicks::Tick& tick : time_ticks(request_.range, wanted).ticks) {
      const auto x =
          std::lround((tick.time - request_.range.begin) / request_.range.length() * width_);
      if (x >= 0 && x < width_) line[static_cast<std::size_t>(x)] = theme_.grid.rgb();
    }
    return line;
  }

  void clear_under_pinned() {
    const int bottom = std::min(image_.height(), pixels(rows_.pinned_height));
    for (int y = 0; y < bottom; ++y)
      std::copy(ground_.begin(), ground_.end(), reinterpret_cast<QRgb*>(image_.scanLine(y)));
    std::erase_if(labels_, [&](const SpanLabel& label) {
      return label.place.top() < rows_.pinned_height - 1;
    });
  }

  int pixels(double logical) const {
    return static_cast<int>(std::lround(logical * request_.ratio));
  }

  const std::vector<std::int64_t>& edges_of(std::size_t source) {
    auto& edges = edges_[source];
    if (edges.empty()) edges = pixel_edges(request_.range, width_, data_.maps[source]);
    return edges;
  }

  const std::vector<PixelTimes>& times_of(std::size_t source) {
    auto& times = times_[source];
    if (times.empty()) times = data_.sources[source]->coverage.pixels(edges_of(source));
    return times;
  }

  void draw_row(const TimelineRow& row, double top) {
    if (row.is_heading()) return;
    const int first = pixels(top) + 1;
    const LaneBand band{
        .left = 0, .top = first, .height = std::max(3, pixels(top + row.height) - first)};
    const LaneLook look = row.is_ghost                      ? LaneLook::dashed
                          : row.side == SideKind::predicted ? LaneLook::hollow
                                                            : LaneLook::solid;
    const TimelineBlock* block = row.kind == RowKind::memory ? &data_.blocks[row.block] : nullptr;
    if (block != nullptr)
      draw_memory_lane(image_, theme_, band, *block->memory_of(row.side), request_.range,
                       block->highest_memory());
    else if (row.kind == RowKind::ribbon)
      painter_.ribbon(band, times_of(row.source), look);
    else
      draw_lane_row(row, top, band, look);
  }

  void draw_lane_row(const TimelineRow& row, double top, LaneBand band, LaneLook look) {
    const TimelineTrack& track = data_.sources[row.source]->tracks[row.track];
    const SpanLane& lane = track.lanes[row.lane];
    draw_lane(lane, edges_of(row.source), picture_);
    const bool hatches = track.group == TrackGroup::streams && !row.is_ghost;
    if (hatches) mark_exposed(row.source);
    painter_.lane(band, picture_, look,
                  hatches ? std::span<const bool>(hatched_.get(), picture_.pixels.size())
                          : std::span<const bool>());
    if (row.height < QFontMetricsF(request_.font).ascent()) return;
    for (const WideSpan& wide : picture_.wide) add_label(row, lane, wide, top, look);
  }

  /// Pixels that show a collective, and in which most communication is exposed.
  void mark_exposed(std::size_t source) {
    const auto& times = times_of(source);
    if (!hatched_) hatched_ = std::make_unique<bool[]>(static_cast<std::size_t>(width_));
    for (std::size_t x = 0; x < picture_.pixels.size(); ++x) {
      const std::uint8_t colour = picture_.pixels[x].colour;
      hatched_[x] = colour != LanePixel::blank &&
                    is_communication(static_cast<SpanColour>(colour)) &&
                    times[x].communication > 0 && times[x].communication >= times[x].overlapped;
    }
  }

  void add_label(const TimelineRow& row, const SpanLane& lane, const WideSpan& wide, double top,
                 LaneLook look) {
    const double left = wide.left / request_.ratio, right = wide.right / request_.ratio;
    if (right - left < least_text_width || labels_.size() >= most_labels) return;
    const TimelineTrack& track = data_.sources[row.source]->tracks[row.track];
    const QColor fill = colour_in(theme_, lane.colour(wide.index));
    labels_.push_back(
        {.place = QRectF(left + 3, top, right - left - 5, row.height),
         .text = text_of(data_.sources[row.source]->name_of(track.items, lane.id(wide.index))),
         .ink = look == LaneLook::solid ? theme_.text_on(fill) : theme_.ink});
  }

  void draw_labels() {
    QPainter text(&image_);
    text.setFont(request_.font);
    const QFontMetricsF metrics(request_.font, &image_);
    const double letter = std::max(1.0, 1.08 * metrics.averageCharWidth());
    for (const SpanLabel& label : labels_) {
      const auto fits = static_cast<qsizetype>(label.place.width() / letter);
      if (fits < 2) continue;
      text.setPen(label.ink);
      text.drawText(
          QPointF(label.place.left(), label.place.center().y() + metrics.ascent() / 2 - 1),
          short_name(label.text, fits));
    }
  }

  const TimelineData& data_;
  const TimelineRows& rows_;
  const FrameRequest& request_;
  const Theme& theme_;
  int width_;
  QImage image_;
  std::vector<QRgb> ground_;
  LanePainter painter_;
  std::map<std::size_t, std::vector<std::int64_t>> edges_;
  std::map<std::size_t, std::vector<PixelTimes>> times_;
  LanePicture picture_;
  std::unique_ptr<bool[]> hatched_;
  std::vector<SpanLabel> labels_;
};

}  // namespace

QImage draw_frame(const TimelineData& data, const TimelineRows& rows, const FrameRequest& request,
                  const Theme& theme) {
  return Frame(data, rows, request, theme).draw();
}

}  // namespace shardscope::gui
