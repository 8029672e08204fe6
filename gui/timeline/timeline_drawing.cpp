#include "gui/timeline/timeline_drawing.h"

#include <QCoreApplication>
#include <QFontMetricsF>
#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "core/base/quantities.h"
#include "gui/base/text.h"
#include "gui/timeline/lane_painter.h"
#include "gui/timeline/range_figures.h"

namespace shardscope::gui {
namespace {

QString tr(const char* text) { return QCoreApplication::translate("TimelineCanvas", text); }

QString share_line(const QString& what, Duration part, Duration whole) {
  const double share =
      whole.ns > 0 ? 100.0 * static_cast<double>(part.ns) / static_cast<double>(whole.ns) : 0;
  return QStringLiteral("%1: %2 (%3%)<br>")
      .arg(what, text_of(rounded_text(part)))
      .arg(share, 0, 'f', 1);
}

}  // namespace

QString as_rich_text(const std::vector<SpanDetail>& details) {
  QString text = QStringLiteral("<table>");
  for (const SpanDetail& detail : details)
    text += QStringLiteral("<tr><td>%1&nbsp;</td><td>%2</td></tr>")
                .arg(text_of(detail.what).toHtmlEscaped(), text_of(detail.value).toHtmlEscaped());
  return text + QStringLiteral("</table>");
}

namespace {

/// What one row of memory holds at an instant: the whole, then its categories.
QString memory_help(const MemoryTrack& track, double time) {
  const MemoryLevel* level = level_at(track, time);
  const QString heading =
      QStringLiteral("<b>%1 memory, %2</b><br>")
          .arg(text_of(name_of(track.side)), text_of(name_of(track.curve.clock)).toHtmlEscaped());
  const QString why = track.curve.clock == MemoryClock::host
                          ? tr("Memory is asked for when the host issues an operation; the device "
                               "runs it later.")
                          : tr("As of when the device runs the operation.");
  if (level == nullptr) return heading + why;
  const auto line = [](const QString& what, Bytes bytes) {
    return QStringLiteral("%1: %2<br>").arg(what, text_of(rounded_text(bytes)));
  };
  QString text = heading + line(tr("held"), level->bytes.total());
  if (level->reserved.count > 0) text += line(tr("reserved"), level->reserved);
  for (std::size_t band = 0; band < memory_band_count; ++band)
    if (level->bytes[band].count != 0) text += line(text_of(band_name(band)), level->bytes[band]);
  return text + QStringLiteral("<i>%1</i>").arg(why);
}

}  // namespace

QString row_help(const TimelineData& data, const TimelineRow& row, const TimeScale& scale,
                 double x) {
  if (row.kind == RowKind::memory)
    return memory_help(*data.blocks[row.block].memory_of(row.side), scale.time_at(x));
  if (row.kind != RowKind::ribbon || x < scale.left)
    return row.label.empty() ? QString() : text_of(row.label).toHtmlEscaped();
  const TimeRange pixel{.begin = scale.time_at(x), .end = scale.time_at(x + 1)};
  const Accounting time =
      data.sources[row.source]->coverage.account(window_of(data, row.source, pixel));
  return QStringLiteral("<b>%1</b><br>").arg(text_of(name_of(row.side))) +
         share_line(tr("compute"), time.compute, time.span) +
         share_line(tr("of it over communication"), time.overlap, time.span) +
         share_line(tr("exposed communication"), time.exposed_communication, time.span) +
         share_line(tr("exposed copies"), time.exposed_copy, time.span) +
         share_line(tr("idle"), time.idle, time.span);
}

void draw_label(QPainter& painter, const Theme& theme, const TimelineRow& row, QRectF where,
                bool is_pinned) {
  QString text = text_of(row.label);
  double left = 8 + 12.0 * row.depth;
  if (row.is_heading()) {
    painter.fillRect(where, row.kind == RowKind::rank ? theme.grid : theme.lane);
    painter.setPen(Qt::NoPen);
    painter.setBrush(theme.ink);
    const double y = where.center().y();
    const QPolygonF arrow = row.is_open
                                ? QPolygonF({{left, y - 3}, {left + 9, y - 3}, {left + 4.5, y + 4}})
                                : QPolygonF({{left + 1, y - 5}, {left + 1, y + 5}, {left + 7, y}});
    painter.drawPolygon(arrow);
    left += 14;
  }
  painter.setBrush(Qt::NoBrush);
  QFont font = painter.font();
  font.setBold(row.kind == RowKind::rank);
  painter.save();
  painter.setFont(font);
  const QFontMetricsF metrics(font);
  const QString side = row.is_heading() || text.isEmpty() ? QString()
                       : row.is_ghost                     ? tr("what-if")
                                                          : text_of(name_of(row.side));
  const double side_width = side.isEmpty() ? 0 : metrics.horizontalAdvance(side) + 10;
  const double line = metrics.height();
  const bool has_detail = !row.detail.empty() && where.height() > 2 * line;
  const QRectF first = has_detail ? where.adjusted(0, 0, 0, -line) : where;
  if (has_detail) {
    painter.setPen(theme.faint_ink);
    painter.drawText(
        where.adjusted(left, where.height() / 2, -6, 0), Qt::AlignVCenter | Qt::TextSingleLine,
        metrics.elidedText(text_of(row.detail), Qt::ElideRight, where.width() - left - 6));
  }
  painter.setPen(theme.ink);
  if (is_pinned) text = QChar(0x25C6) + text;
  painter.drawText(first.adjusted(left, 0, -side_width, 0), Qt::AlignVCenter | Qt::TextSingleLine,
                   metrics.elidedText(text, Qt::ElideMiddle, where.width() - left - side_width));
  painter.setPen(theme.faint_ink);
  painter.drawText(first.adjusted(0, 0, -6, 0), Qt::AlignVCenter | Qt::AlignRight, side);
  painter.restore();
}

void draw_arrow(QPainter& painter, const Theme& theme, const QRectF& from, const QRectF& to) {
  const QPointF begin(from.right(), from.center().y()), end(to.left(), to.center().y());
  const double bend = std::clamp(std::abs(end.x() - begin.x()) / 2, 16.0, 90.0);
  QPainterPath path(begin);
  path.cubicTo(begin + QPointF(bend, 0), end - QPointF(bend, 0), end);
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(theme.background, 4));
  painter.drawPath(path);
  painter.setPen(QPen(theme.accent, 1.8));
  painter.drawPath(path);
  painter.setPen(Qt::NoPen);
  painter.setBrush(theme.accent);
  painter.drawPolygon(QPolygonF({end, end + QPointF(-9, -4.5), end + QPointF(-9, 4.5)}));
  painter.restore();
}

void draw_flow(QPainter& painter, const Theme& theme, const QRectF& from, const QRectF& to,
               bool is_peer) {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setBrush(Qt::NoBrush);
  QColor colour = is_peer ? theme.exposed : theme.ink;
  colour.setAlpha(is_peer ? 220 : 120);
  painter.setPen(QPen(colour, 1, is_peer ? Qt::DashLine : Qt::SolidLine));
  // A launch is short: from its begin the arrow is seen where its end would hide it.
  const QPointF begin(from.left(), from.center().y()), end(to.left(), to.center().y());
  if (is_peer) {
    painter.drawLine(begin, end);
  } else {
    const double bend = std::clamp(std::abs(end.x() - begin.x()) / 2, 4.0, 60.0);
    QPainterPath path(begin);
    path.cubicTo(begin + QPointF(bend, 0), end - QPointF(bend, 0), end);
    painter.drawPath(path);
    painter.setPen(Qt::NoPen);
    painter.setBrush(colour);
    painter.drawPolygon(QPolygonF({end, end + QPointF(-6, -3), end + QPointF(-6, 3)}));
  }
  painter.restore();
}

void draw_legend(QPainter& painter, const Theme& theme, QRectF where) {
  QImage sample(14, 12, QImage::Format_RGB32);
  const std::vector<QRgb> ground(14, theme.background.rgb());
  const QFontMetricsF metrics(painter.font());
  double x = where.left() + 6;
  const auto entry = [&](const QString& text) {
    if (x > where.right()) return;
    painter.drawImage(QPointF(x, where.center().y() - 6), sample);
    painter.setPen(theme.faint_ink);
    painter.drawText(QPointF(x + 18, where.center().y() + metrics.ascent() / 2 - 1), text);
    x += 30 + metrics.horizontalAdvance(text);
  };
  const auto span = [&](SpanColour colour, LaneLook look, bool hatch, const QString& text) {
    sample.fill(theme.background);
    LanePainter lane(sample, theme, ground);
    LanePicture picture;
    picture.pixels.assign(14, {static_cast<std::uint8_t>(colour), 255});
    picture.wide = {{.index = 0, .left = 0, .right = 14}};
    std::array<bool, 14> hatched{};
    hatched.fill(hatch);
    lane.lane({.left = 0, .top = 0, .height = 12}, picture, look, hatched);
    entry(text);
  };
  span(SpanColour::forward, LaneLook::hollow, false, tr("predicted"));
  span(SpanColour::forward, LaneLook::solid, false, tr("profiled, forward"));
  span(SpanColour::backward, LaneLook::solid, false, tr("backward"));
  span(SpanColour::optimizer, LaneLook::solid, false, tr("optimizer"));
  span(SpanColour::gather, LaneLook::solid, false, tr("gather"));
  span(SpanColour::reduce, LaneLook::solid, false, tr("reduce"));
  span(SpanColour::reduce, LaneLook::solid, true, tr("exposed"));
  span(SpanColour::copy, LaneLook::solid, false, tr("copy"));
  const auto part = [&](PixelTimes times, const QString& text) {
    sample.fill(theme.background);
    LanePainter lane(sample, theme, ground);
    lane.ribbon({.left = 0, .top = 0, .height = 12}, std::vector<PixelTimes>(14, times),
                LaneLook::solid);
    entry(text);
  };
  part({.compute = 1, .overlapped = 1}, tr("compute over communication"));
  part({.idle = 1}, tr("idle"));
}

std::optional<SpanPlace> place_of_selection(const TimelineData& data, const Selection& selection) {
  std::optional<SpanPlace> elsewhere;
  for (std::size_t source = 0; source < data.sources.size(); ++source) {
    const TimelineRank& rank = *data.sources[source];
    if (rank.scenario != selection.scenario) continue;
    const bool is_own = rank.side == selection.side && rank.rank == selection.rank;
    std::optional<SpanPlace> place;
    if (is_own && selection.event)
      place = place_of(data, source, LaneItems::events, *selection.event);
    if (is_own && !place && selection.span)
      place = place_of(data, source, LaneItems::spans, static_cast<std::uint32_t>(*selection.span));
    if (!place && selection.operation)
      place = place_of_operation(data, source, selection.operation,
                                 selection.time ? selection.time->middle() : 0);
    if (place && is_own) return place;
    if (!elsewhere) elsewhere = place;
  }
  return elsewhere;
}

std::vector<std::string> headings_of(const TimelineData& data, const RowChoices& choices,
                                     const SpanPlace& place) {
  RowChoices tried = choices;
  std::vector<std::string> opened;
  const TrackGroup group = data.sources[place.source]->tracks[place.track].group;
  for (const RowKind kind : {RowKind::rank, RowKind::group}) {
    if (kind == RowKind::group && group < TrackGroup::host) break;
    const TimelineRows rows = lay_out_rows(data, tried);
    const auto closed = std::find_if(rows.rows.begin(), rows.rows.end(), [&](const auto& row) {
      const TimelineBlock& block = data.blocks[row.block];
      return row.kind == kind && !row.is_open &&
             (block.predicted == place.source || block.profiled == place.source);
    });
    if (closed == rows.rows.end()) continue;
    opened.push_back(closed->key);
    if (tried.toggled.erase(closed->key) == 0) tried.toggled.insert(closed->key);
  }
  return opened;
}

std::vector<std::string> rank_keys(const TimelineRows& rows) {
  std::vector<std::string> keys;
  const bool any_closed = std::any_of(rows.rows.begin(), rows.rows.end(), [](const auto& row) {
    return row.kind == RowKind::rank && !row.is_open;
  });
  for (const TimelineRow& row : rows.rows)
    if (row.kind == RowKind::rank && row.is_open != any_closed) keys.push_back(row.key);
  return keys;
}

std::vector<SearchHit> hits_in(const std::vector<SearchHit>& hits, TimeRange range) {
  constexpr std::size_t most = 500;
  const auto before = [](const SearchHit& hit, double time) { return hit.time < time; };
  const auto from = std::lower_bound(hits.begin(), hits.end(), range.begin, before);
  const auto to = std::lower_bound(from, hits.end(), range.end, before);
  const auto count = static_cast<std::size_t>(to - from);
  std::vector<SearchHit> result;
  for (std::size_t i = 0; i < count; i += 1 + count / most)
    result.push_back(*(from + static_cast<std::ptrdiff_t>(i)));
  return result;
}

}  // namespace shardscope::gui
