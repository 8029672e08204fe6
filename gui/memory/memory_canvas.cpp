#include "gui/memory/memory_canvas.h"

#include <QFontMetricsF>
#include <QPaintEngine>
#include <QStyle>
#include <algorithm>
#include <cmath>

#include "gui/base/spoken.h"
#include "gui/base/text.h"
#include "gui/memory/bytes_text.h"
#include "gui/memory/memory_rows.h"

namespace shardscope::gui {
namespace {

constexpr double axis_height = 20;
constexpr double gap = 8;

/// Room above what is drawn.
constexpr double headroom = 1.06;

Bytes with_headroom(Bytes bytes) {
  return {std::max<std::int64_t>(
      1, static_cast<std::int64_t>(static_cast<double>(bytes.count) * headroom))};
}

/// A limit that is not much further than what is drawn is shown; another is told at the top.
constexpr double near = 1.6;

Bytes highest_shown(const MemoryPicture& picture, const MemoryLook& look) {
  Bytes highest = picture.highest;
  const auto& capacity = picture.a->capacity;
  if (!capacity) return with_headroom(highest);
  const bool is_near =
      static_cast<double>(capacity->count) < near * static_cast<double>(highest.count);
  if (is_near || look.reaches_capacity) highest = std::max(highest, *capacity);
  return with_headroom(highest);
}

/// Whether a scenario's capacity is told at the top of its plot.
bool has_capacity_above(const MemoryPicture& picture, Bytes highest) {
  const auto is_above = [&](const auto& curves) {
    return curves && curves->capacity && *curves->capacity > highest;
  };
  return is_above(picture.a) || is_above(picture.b);
}

Bytes highest_difference(const ScenarioCurves& curves) {
  if (curves.difference.size() == 0) return {1};
  const auto found = curves.difference.over(0, curves.difference.size());
  return {std::max<std::int64_t>(
      {1, std::abs(curves.difference[found.highest]), std::abs(curves.difference[found.lowest])})};
}

}  // namespace

MemoryCanvas::MemoryCanvas(Workspace& workspace, QWidget* parent) : TimeCanvas(workspace, parent) {
  let_speak(*this);
  setAccessibleName(tr("Memory over time"));
  setMinimumSize(320, 200);
}

void MemoryCanvas::set_picture(std::shared_ptr<const MemoryPicture> picture) {
  if (picture->a != picture_->a) level_.reset();
  picture_ = std::move(picture);
  layer_key_ = {};
  QStringList peaks;
  if (!picture_->empty())
    for (const SideKind kind : {SideKind::predicted, SideKind::profiled})
      if (const auto& curve = picture_->a->side(kind); curve && curve->peak)
        peaks << tr("%1 peak %2")
                     .arg(text_of(name_of(kind)),
                          exact_bytes(curve->levels.levels[*curve->peak].bytes.total()));
  setAccessibleDescription(peaks.join(QStringLiteral(", ")));
  update();
}

void MemoryCanvas::set_look(const MemoryLook& look) {
  if (look_ == look) return;
  look_ = look;
  update();
  Q_EMIT look_changed();
}

void MemoryCanvas::choose(std::optional<double> instant) {
  instant_ = instant;
  level_.reset();
  update();
  Q_EMIT instant_chosen();
}

void MemoryCanvas::go_to(std::size_t level) {
  instant_ = curve()->begins[level];
  level_ = level;
  update();
  Q_EMIT instant_chosen();
}

std::optional<std::size_t> MemoryCanvas::level_at(const MemorySideCurve& curve, double time) const {
  const TimeRange pixel{time, time + scale().ns_per_pixel()};
  const auto column = band_columns(curve.begins, curve.levels.end, curve.totals, pixel, 1).front();
  return column.empty() ? std::nullopt : std::optional<std::size_t>(column.highest);
}

std::optional<std::size_t> MemoryCanvas::chosen_level() const {
  const MemorySideCurve* of = curve();
  if (of == nullptr || !instant_) return std::nullopt;
  if (level_ && *level_ < of->begins.size()) return level_;
  return level_at(*of, *instant_);
}

void MemoryCanvas::follow(SideKind side, double instant) {
  side_ = side;
  instant_ = instant;
  level_.reset();
  update();
}

SideKind MemoryCanvas::side() const {
  if (picture_->empty()) return SideKind::profiled;
  const SideKind wanted = side_.value_or(SideKind::profiled);
  if (picture_->a->side(wanted)) return wanted;
  return wanted == SideKind::profiled ? SideKind::predicted : SideKind::profiled;
}

void MemoryCanvas::set_side(SideKind side) {
  side_ = side;
  choose(instant_);
}

const MemorySideCurve* MemoryCanvas::curve() const {
  return picture_->empty() ? nullptr : &*picture_->a->side(side());
}

double MemoryCanvas::here() const {
  const auto& hover = workspace().cursors().hover;
  return hover.value_or(instant_.value_or(workspace().visible().middle()));
}

std::vector<Command> MemoryCanvas::commands() {
  std::vector<Command> all = TimeCanvas::commands();
  const QString group = tr("Memory");
  const auto add = [&](const QString& text, QKeySequence key, std::function<void()> run) {
    all.push_back({.group = group, .text = text, .keys = {key}, .run = std::move(run)});
  };
  add(tr("What is alive here"), Qt::Key_Return, [this] { choose(here()); });
  add(tr("Level before"), Qt::Key_Comma, [this] { step_level(-1); });
  add(tr("Level after"), Qt::Key_Period, [this] { step_level(1); });
  add(tr("Next peak"), Qt::Key_P, [this] { next_peak(); });
  add(tr("Set cursor 1 here"), Qt::Key_1, [this] { set_cursor(&Cursors::a, here()); });
  add(tr("Set cursor 2 here"), Qt::Key_2, [this] { set_cursor(&Cursors::b, here()); });
  const auto change = [this](auto alter) {
    MemoryLook look = look_;
    alter(look);
    set_look(look);
  };
  add(tr("Show or hide the difference"), Qt::SHIFT | Qt::Key_D,
      [change] { change([](MemoryLook& l) { l.has_difference = !l.has_difference; }); });
  add(tr("Scale up to the capacity"), Qt::Key_C,
      [change] { change([](MemoryLook& l) { l.reaches_capacity = !l.reaches_capacity; }); });
  add(tr("B below, as an outline, or hidden"), Qt::Key_O, [change] {
    change([](MemoryLook& l) {
      l.other = static_cast<OtherScenario>((static_cast<int>(l.other) + 1) % 3);
    });
  });
  add(tr("Predicted or profiled live set"), Qt::Key_V, [this] {
    set_side(side() == SideKind::profiled ? SideKind::predicted : SideKind::profiled);
  });
  return all;
}

void MemoryCanvas::click(QPointF at, Qt::KeyboardModifiers modifiers) {
  if (at.x() < scale().left) return;
  const double time = scale().time_at(at.x());
  if (!(modifiers & Qt::AltModifier)) return choose(time);
  const Cursors& cursors = workspace().cursors();
  const bool is_second = cursors.a && !cursors.b;
  set_cursor(is_second ? &Cursors::b : &Cursors::a, time);
}

void MemoryCanvas::set_cursor(std::optional<double> Cursors::*cursor, double time) {
  Cursors cursors = workspace().cursors();
  // Beginning anew, when both stand.
  if (cursor == &Cursors::a && cursors.a && cursors.b) cursors.b.reset();
  cursors.*cursor = time;
  workspace().set_cursors(cursors);
}

void MemoryCanvas::step_level(int by) {
  const MemorySideCurve* of = curve();
  if (of == nullptr) return;
  const auto last = static_cast<std::ptrdiff_t>(of->begins.size()) - 1;
  if (const auto now = chosen_level())
    return go_to(static_cast<std::size_t>(
        std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(*now) + by, 0, last)));
  const auto first = std::lower_bound(of->begins.begin(), of->begins.end(),
                                      instant_.value_or(workspace().visible().begin));
  go_to(static_cast<std::size_t>(std::min(first - of->begins.begin(), last)));
}

void MemoryCanvas::next_peak() {
  if (picture_->empty()) return;
  std::vector<std::pair<SideKind, std::size_t>> peaks;
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled})
    if (const auto& at = picture_->a->side(kind); at && at->peak)
      peaks.emplace_back(kind, *at->peak);
  if (peaks.empty()) return;
  const auto same = std::find_if(peaks.begin(), peaks.end(), [&](const auto& peak) {
    return level_ == peak.second && side() == peak.first;
  });
  const auto& next = same == peaks.end() || same + 1 == peaks.end() ? peaks.front() : *(same + 1);
  side_ = next.first;
  go_to(next.second);
}

MemoryCanvas::Layout MemoryCanvas::layout_for(QSize size) const {
  const double left = label_width(), width = std::max(1.0, size.width() - left);
  const QFontMetricsF metrics(font());
  const double line = metrics.height() + 2;
  Layout layout;
  layout.strip = QRectF(left, axis_height, width, 2 * line);
  const double top = layout.strip.bottom();
  double height = std::max(10.0, size.height() - top - gap);
  const bool has_difference =
      look_.has_difference && !picture_->empty() && picture_->a->predicted && picture_->a->profiled;
  if (has_difference) {
    const double part = std::clamp(height * 0.22, 40.0, 160.0);
    layout.difference = QRectF(left, size.height() - part - gap, width, part);
    height -= part + gap;
  }
  const bool has_other = look_.other == OtherScenario::below && picture_->b &&
                         (!picture_->b->empty() || !picture_->b->unmatched.empty());
  if (has_other) {
    // What has no curves is named only.
    const double part = picture_->b->empty() ? 1 : (height - line) / 2;
    layout.other = QRectF(left, top + height - part, width, part);
    height -= part + line;
  }
  layout.plot = QRectF(left, top, width, height);
  return layout;
}

MemoryPlot MemoryCanvas::plot_in(QRectF area, QSize size, double pixels, Bytes highest,
                                 double above) const {
  const int ticks = static_cast<int>(std::max(2.0, area.height() / 60));
  return {.area = area,
          .scale = scale_for(size.width()),
          .bytes = byte_axis(highest, area.bottom(), area.top() + above, ticks),
          .pixels = pixels};
}

void MemoryCanvas::draw_scenario(MemoryPainter& pen, const MemoryPlot& plot,
                                 const ScenarioCurves& curves) {
  const BandSet shown = picture_->shown();
  if (curves.profiled) pen.draw_bands(plot, *curves.profiled, shown, SideKind::profiled);
  if (curves.predicted) {
    if (!curves.profiled) pen.draw_bands(plot, *curves.predicted, shown, SideKind::predicted);
    pen.draw_outline(plot, *curves.predicted, shown);
  }
  pen.draw_limits(plot, curves);
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled})
    if (const auto& side = curves.side(kind)) pen.draw_failed_requests(plot, *side);
}

void MemoryCanvas::draw_layer(QPainter& painter, QSize size, double pixels) {
  const Theme& theme = theme_of(*this);
  painter.fillRect(QRect(QPoint(), size), theme.background);
  const Layout layout = layout_for(size);
  draw_axis(painter, scale_for(size.width()), 0, size.height() - gap);
  if (picture_->empty()) {
    painter.setPen(theme.faint_ink);
    painter.drawText(QRect(QPoint(), size), Qt::AlignCenter,
                     tr("No memory over time: open a run folder, a memory snapshot or a trace that "
                        "was profiled with profile_memory=True"));
    return;
  }
  painter.setPen(theme.faint_ink);
  painter.drawText(QRectF(0, 0, label_width() - 6, axis_height), Qt::AlignRight | Qt::AlignTop,
                   text_of(name_of(curve()->clock)));
  MemoryPainter pen(painter, theme);
  const Bytes highest = highest_shown(*picture_, look_);
  const double line = layout.strip.height() / 2;
  const double above = has_capacity_above(*picture_, highest) ? line : 0;
  const MemoryPlot plot = plot_in(layout.plot, size, pixels, highest, above);
  painter.save();
  pen.draw_scale(plot);
  painter.setClipRect(layout.plot.united(layout.strip));
  draw_scenario(pen, plot, *picture_->a);
  if (look_.other == OtherScenario::outline && picture_->b)
    for (const SideKind kind : {SideKind::predicted, SideKind::profiled})
      if (const auto& side = picture_->b->side(kind))
        pen.draw_total(plot, *side,
                       QPen(theme.more, kind == SideKind::profiled ? 2.4 : 1.2, Qt::DashDotLine));
  if (picture_->ghost && picture_->ghost->predicted)
    pen.draw_total(plot, *picture_->ghost->predicted, QPen(theme.accent, 2, Qt::DashLine));
  QRectF row(layout.strip.left(), layout.strip.top(), layout.strip.width(), line);
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled}) {
    pen.draw_peak(plot, *picture_->a, kind, row);
    if (picture_->a->side(kind)) row.translate(0, line);
  }
  painter.restore();
  if (!layout.other.isEmpty()) {
    const MemoryPlot other = plot_in(layout.other, size, pixels, highest, above);
    painter.save();
    if (!picture_->b->empty()) pen.draw_scale(other);
    const QRectF title(layout.other.left(), layout.other.top() - line, layout.other.width(), line);
    painter.setPen(theme.ink);
    pen.draw_label(
        title, tr("B: %1").arg(text_of(picture_->b->scenario->label)) + unmatched_text(*picture_),
        Qt::AlignLeft | Qt::AlignVCenter);
    painter.setClipRect(layout.other);
    draw_scenario(pen, other, *picture_->b);
    painter.restore();
  }
  if (!layout.difference.isEmpty()) draw_differences(painter, layout.difference, size, pixels);
}

void MemoryCanvas::draw_differences(QPainter& painter, QRectF area, QSize size, double pixels) {
  const Theme& theme = theme_of(*this);
  const Bytes most = highest_difference(*picture_->a);
  const MemoryPlot plot = plot_in(area, size, pixels, most);
  MemoryPainter pen(painter, theme);
  painter.save();
  painter.setPen(theme.faint_ink);
  const QFontMetricsF metrics(painter.font());
  const QRectF labels(0, area.top(), area.left() - 6, area.height());
  pen.draw_label(labels, QStringLiteral("+") + rounded_bytes(most), Qt::AlignRight | Qt::AlignTop);
  pen.draw_label(labels, tr("pred. - prof."), Qt::AlignRight | Qt::AlignVCenter);
  pen.draw_label(labels, QStringLiteral("\u2212") + rounded_bytes(most),
                 Qt::AlignRight | Qt::AlignBottom);
  painter.setClipRect(area);
  pen.draw_difference(plot, *picture_->a);
  QColor plate = theme.background;
  plate.setAlpha(210);
  const auto say = [&](const QString& text, Qt::Alignment side) {
    const QRectF place = QStyle::alignedRect(
        Qt::LeftToRight, side, metrics.size(Qt::TextSingleLine, text).toSize(), area.toRect());
    painter.fillRect(place, plate);
    pen.draw_label(place, text, Qt::AlignCenter);
  };
  painter.setPen(theme.ink);
  say(tr("+ predicted is more"), Qt::AlignRight | Qt::AlignTop);
  say(tr("\u2212 predicted is less"), Qt::AlignRight | Qt::AlignBottom);
  if (picture_->selected())
    pen.draw_label(area, tr("line: %1").arg(text_of(band_name(*picture_->selected()))),
                   Qt::AlignLeft | Qt::AlignTop);
  painter.restore();
}

void MemoryCanvas::draw(QPainter& painter, QSize size) {
  const double pixels = painter.deviceTransform().m11();  // also of a picture that is rendered to
  const LayerKey key{.size = size,
                     .pixels = pixels,
                     .range = workspace().visible(),
                     .picture = picture_.get(),
                     .look = look_,
                     .appearance = theme_of(*this).appearance};
  const bool is_screen = size == this->size() && painter.paintEngine() != nullptr &&
                         painter.paintEngine()->type() == QPaintEngine::Raster;
  if (!is_screen) {
    draw_layer(painter, size, pixels);
  } else {
    if (!(layer_key_ == key)) {
      layer_ = QPixmap(size * pixels);
      layer_.setDevicePixelRatio(pixels);
      QPainter layer(&layer_);
      layer.setFont(painter.font());
      draw_layer(layer, size, pixels);
      layer_key_ = key;
    }
    painter.drawPixmap(0, 0, layer_);
  }
  const Layout layout = layout_for(size);
  draw_cursors(painter, scale_for(size.width()), axis_height, size.height() - gap);
  if (picture_->empty()) return;
  draw_instant(painter, layout, size);
  draw_read_out(painter, layout, size);
}

void MemoryCanvas::draw_instant(QPainter& painter, const Layout& layout, QSize size) {
  if (!instant_) return;
  const double x = scale_for(size.width()).x_of(*instant_);
  if (x < layout.plot.left() || x > layout.plot.right()) return;
  const Theme& theme = theme_of(*this);
  painter.setPen(QPen(theme.ink, 1.5));
  painter.drawLine(QPointF(x, layout.plot.top()), QPointF(x, layout.plot.bottom()));
  painter.setBrush(theme.accent);
  painter.drawEllipse(QPointF(x, layout.plot.bottom()), 4, 4);
  painter.setBrush(Qt::NoBrush);
}

}  // namespace shardscope::gui
