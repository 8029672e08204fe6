#include "gui/flame/flame_canvas.h"

#include <QApplication>
#include <QClipboard>
#include <QFontMetricsF>
#include <QHelpEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "gui/base/short_name.h"
#include "gui/base/spoken.h"
#include "gui/base/text.h"
#include "gui/data/memory_bands.h"
#include "gui/data/span_lanes.h"

namespace shardscope::gui {
namespace {

constexpr double margin = 6;
constexpr double panel_gap = 10;
constexpr double least_box = 1.5;       ///< pixels; narrower ones are left out
constexpr double least_named = 22;      ///< pixels
constexpr qsizetype least_letters = 3;  ///< of a name that is cut
constexpr double widest_row = 1.5;      ///< of the least height
constexpr double around_fill = 0.5;     ///< of the colour, of nodes with others below them
constexpr double hollow_fill = 0.16;
constexpr double faded = 0.28;

QColor with_alpha(QColor colour, double alpha) {
  colour.setAlphaF(static_cast<float>(alpha));
  return colour;
}

/// What most operators begin with says nothing.
QString common_of(const QString& name) {
  for (const char* prefix : {"aten.", "aten::", "void "})
    if (name.startsWith(QLatin1String(prefix))) return QLatin1String(prefix);
  return {};
}

SpanColour colour_of_kind(const FlameLook& look) { return gui::colour_of(look.kind, look.phase); }

QString share_text(std::int64_t part, std::int64_t whole) {
  const double share =
      whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
  return QStringLiteral("%1%").arg(share, 0, 'f', 1);
}

}  // namespace

FlameCanvas::FlameCanvas(QWidget* parent) : QWidget(parent) {
  setObjectName(QStringLiteral("flame_canvas"));
  let_speak(*this);
  setAccessibleName(tr("Flame graph by module"));
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  setAttribute(Qt::WA_OpaquePaintEvent);
}

void FlameCanvas::show_picture(std::shared_ptr<const FlamePicture> picture) {
  const bool is_same_kind = picture->of == picture_->of;
  zoomed_ = is_same_kind ? same_node(picture_->tree, zoomed_, picture->tree) : 0;
  current_ = is_same_kind ? same_node(picture_->tree, current_, picture->tree) : 0;
  picture_ = std::move(picture);
  hovered_.reset();
  show_matches({});
  say(*this, told());
  Q_EMIT zoom_changed();
  Q_EMIT current_changed();
}

void FlameCanvas::show_matches(FlameMatches matches) {
  matches_ = std::move(matches);
  is_lit_.clear();
  if (!matches_.nodes.empty()) {
    is_lit_.resize(picture_->tree.nodes.size());
    for (std::uint32_t node : matches_.nodes)
      for (; node != FlameNode::none && !is_lit_[node]; node = picture_->tree.nodes[node].parent)
        is_lit_[node] = true;
  }
  lay_out();
}

void FlameCanvas::step_match(int by) {
  if (matches_.nodes.empty()) return;
  const auto size = static_cast<std::ptrdiff_t>(matches_.nodes.size());
  const auto at = std::lower_bound(matches_.nodes.begin(), matches_.nodes.end(), current_);
  const bool is_match = at != matches_.nodes.end() && *at == current_;
  const std::ptrdiff_t place = at - matches_.nodes.begin();
  const std::ptrdiff_t next = is_match || by < 0 ? place + by : place;
  choose(matches_.nodes[static_cast<std::size_t>((next + size) % size)]);
}

void FlameCanvas::zoom_to(std::uint32_t node) {
  if (node >= picture_->tree.nodes.size()) return;
  zoomed_ = node;
  lay_out();
  Q_EMIT zoom_changed();
}

void FlameCanvas::set_scale(FlameScale scale) {
  if (scale == scale_) return;
  scale_ = scale;
  lay_out();
  Q_EMIT scale_changed(scale == FlameScale::shared);
}

void FlameCanvas::choose(std::uint32_t node) {
  if (node >= picture_->tree.nodes.size()) return;
  current_ = node;
  // What is current is in sight.
  if (node != 0 && !picture_->tree.is_within(node, zoomed_) &&
      !picture_->tree.is_within(zoomed_, node))
    zoom_to(picture_->tree.nodes[node].parent);
  say(*this, told());
  update();
  Q_EMIT current_changed();
}

double FlameCanvas::least_row() const { return QFontMetricsF(font()).height() + 6; }

void FlameCanvas::lay_out_for(QSize size) {
  panels_ = {};
  double rows = 0, gaps = 2 * margin;
  for (std::size_t run = 0; run < panels_.size() && !picture_->tree.empty(); ++run) {
    if (picture_->runs[run].title.empty()) continue;
    Panel& panel = panels_[run];
    panel.boxes =
        flame_boxes(picture_->tree, run, zoomed_, least_box / std::max(1, size.width()), scale_);
    const std::uint32_t levels =
        panel.boxes.empty() ? 0 : picture_->tree.nodes[panel.boxes.back().node].depth + 1;
    // The title, and a row that says so where there is nothing.
    panel.rows = 1 + std::max<std::uint32_t>(levels, 1);
    rows += panel.rows;
    gaps += panel_gap;
  }
  needed_ = rows * least_row() + gaps;
  row_ = std::clamp(std::floor((size.height() - gaps) / std::max(1.0, rows)), least_row(),
                    std::floor(least_row() * widest_row));
  double top = margin;
  for (Panel& panel : panels_) {
    panel.top = top;
    panel.height = panel.rows * row_;
    if (panel.rows > 0) top += panel.height + panel_gap;
  }
}

void FlameCanvas::lay_out() {
  lay_out_for(size());
  setMinimumHeight(static_cast<int>(std::ceil(needed_)));
  update();
}

void FlameCanvas::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  lay_out();
}

QRectF FlameCanvas::rectangle_in(const Panel& panel, const FlameBox& box, int width) const {
  const double across = width - 2 * margin;
  const double top = panel.top + row_ * (1 + picture_->tree.nodes[box.node].depth);
  return {margin + box.left * across, top, std::max(1.0, box.width * across), row_};
}

QRectF FlameCanvas::rectangle_of(std::uint32_t node, std::size_t run) const {
  const Panel& panel = panels_[run];
  const auto box = std::find_if(panel.boxes.begin(), panel.boxes.end(),
                                [&](const FlameBox& one) { return one.node == node; });
  return box == panel.boxes.end() ? QRectF() : rectangle_in(panel, *box, width());
}

std::optional<std::uint32_t> FlameCanvas::node_at(QPointF at) const {
  for (const Panel& panel : panels_) {
    if (at.y() < panel.top || at.y() >= panel.top + panel.height) continue;
    for (const FlameBox& box : panel.boxes)
      if (rectangle_in(panel, box, width()).contains(at)) return box.node;
  }
  return std::nullopt;
}

QString FlameCanvas::line_of(std::uint32_t node) const {
  const FlameTree& tree = picture_->tree;
  if (tree.empty()) return text_of(picture_->problem);
  const FlameNode& of = tree.nodes[node];
  QStringList figures;
  for (std::size_t run = 0; run < panels_.size(); ++run) {
    if (picture_->runs[run].title.empty()) continue;
    figures += tr("%1 %2 (%3)")
                   .arg(text_of(picture_->runs[run].title),
                        text_of(amount_text(picture_->of, of.whole[run])),
                        share_text(of.whole[run], tree.nodes[0].whole[run]));
  }
  if (!picture_->runs[0].title.empty() && !picture_->runs[1].title.empty())
    figures.insert(
        2, tr("difference %1").arg(text_of(amount_text(picture_->of, of.whole[0] - of.whole[1]))));
  return (node == 0 ? tr("all") : text_of(tree.path_of(node))) + QStringLiteral(": ") +
         figures.join(QStringLiteral(", "));
}

void FlameCanvas::hover(std::optional<std::uint32_t> node) {
  if (node == hovered_) return;
  hovered_ = node;
  update();
}

bool FlameCanvas::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const auto node = node_at(help->pos());
  if (!node) {
    QToolTip::hideText();
    return true;
  }
  const FlameNode& of = picture_->tree.nodes[*node];
  QString text = QStringLiteral("<b>%1</b><br>%2<table>")
                     .arg((*node == 0 ? tr("all") : text_of(of.name)).toHtmlEscaped(),
                          text_of(picture_->tree.path_of(*node)).toHtmlEscaped());
  for (std::size_t run = 0; run < panels_.size(); ++run) {
    if (picture_->runs[run].title.empty()) continue;
    text +=
        QStringLiteral(
            "<tr><td>%1&nbsp;</td><td align=right>%2&nbsp;</td>"
            "<td align=right>%3&nbsp;</td><td>%4</td></tr>")
            .arg(text_of(picture_->runs[run].title).toHtmlEscaped(),
                 text_of(amount_text(picture_->of, of.whole[run])),
                 share_text(of.whole[run], picture_->tree.nodes[0].whole[run]),
                 of.own[run] == of.whole[run] || of.own[run] == 0
                     ? QString()
                     : tr("%1 of it alone").arg(text_of(amount_text(picture_->of, of.own[run]))));
  }
  if (!picture_->runs[0].title.empty() && !picture_->runs[1].title.empty())
    text +=
        QStringLiteral("<tr><td>%1&nbsp;</td><td align=right>%2&nbsp;</td></tr>")
            .arg(tr("difference"), text_of(amount_text(picture_->of, of.whole[0] - of.whole[1])));
  QToolTip::showText(help->globalPos(), text + QStringLiteral("</table>"), this);
  return true;
}

void FlameCanvas::mousePressEvent(QMouseEvent* event) {
  const auto node = node_at(event->position());
  if (event->button() != Qt::LeftButton || !node) return QWidget::mousePressEvent(event);
  setFocus();
  choose(*node);
  zoom_to(*node);
}

void FlameCanvas::mouseMoveEvent(QMouseEvent* event) { hover(node_at(event->position())); }

void FlameCanvas::leaveEvent(QEvent*) { hover(std::nullopt); }

void FlameCanvas::step_sideways(int by) {
  if (current_ == 0) return;
  const FlameNode& parent = picture_->tree.nodes[picture_->tree.nodes[current_].parent];
  const std::int64_t next = std::int64_t{current_} + by;
  if (next >= parent.first_child && next < parent.first_child + parent.child_count)
    choose(static_cast<std::uint32_t>(next));
}

void FlameCanvas::copy(const QString& text) const {
  if (!text.isEmpty()) QApplication::clipboard()->setText(text);
}

std::vector<Command> FlameCanvas::commands() {
  const QString group = tr("Flame graph");
  std::vector<Command> all;
  const auto add = [&](const QString& text, QList<QKeySequence> keys, std::function<void()> run) {
    all.push_back({.group = group, .text = text, .keys = std::move(keys), .run = std::move(run)});
  };
  const auto nodes = [this]() -> const std::vector<FlameNode>& { return picture_->tree.nodes; };
  add(tr("Zoom to the node"), {Qt::Key_Return, Qt::Key_Enter, Qt::Key_W},
      [this] { zoom_to(current_); });
  add(tr("Zoom out by a level"), {Qt::Key_Backspace, Qt::Key_S}, [this, nodes] {
    if (zoomed_ != 0) zoom_to(nodes()[zoomed_].parent);
  });
  add(tr("Show all"), {Qt::Key_Home, Qt::Key_F, Qt::Key_Escape}, [this] { zoom_to(0); });
  add(tr("Node above"), {Qt::Key_Up}, [this, nodes] {
    if (current_ != 0) choose(nodes()[current_].parent);
  });
  add(tr("Largest node below"), {Qt::Key_Down}, [this, nodes] {
    if (!picture_->tree.empty() && nodes()[current_].child_count > 0)
      choose(nodes()[current_].first_child);
  });
  add(tr("Next node of the level"), {Qt::Key_Right}, [this] { step_sideways(1); });
  add(tr("Previous node of the level"), {Qt::Key_Left}, [this] { step_sideways(-1); });
  all.push_back({.group = group,
                 .text = tr("One scale for all runs"),
                 .keys = {Qt::Key_O},
                 .run =
                     [this] {
                       set_scale(scale_ == FlameScale::shared ? FlameScale::own
                                                              : FlameScale::shared);
                     },
                 .is_checked = [this] { return scale_ == FlameScale::shared; }});
  add(tr("Copy the node's path and figures"), {QKeySequence::Copy}, [this] { copy(told()); });
  add(tr("Copy the node's name"), {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_C)}, [this, nodes] {
    if (current_ != 0) copy(text_of(nodes()[current_].name));
  });
  return all;
}

void FlameCanvas::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  draw(painter, size());
}

void FlameCanvas::draw(QPainter& painter, QSize size) {
  const Theme& theme = theme_of(*this);
  painter.fillRect(QRect(QPoint(), size), theme.background);
  const bool is_own_size = size == this->size();
  if (!is_own_size) lay_out_for(size);
  if (picture_->tree.empty()) {
    painter.setPen(theme.faint_ink);
    painter.drawText(QRect(QPoint(), size).adjusted(16, 0, -16, 0),
                     Qt::AlignCenter | Qt::TextWordWrap,
                     picture_->problem.empty() ? tr("Open a run or a trace to see it here.")
                                               : text_of(picture_->problem));
    return;
  }
  for (std::size_t run = 0; run < panels_.size(); ++run)
    if (!picture_->runs[run].title.empty()) draw_panel(painter, run, size);
  if (!is_own_size) lay_out_for(this->size());
}

void FlameCanvas::draw_panel(QPainter& painter, std::size_t run, QSize size) const {
  const Theme& theme = theme_of(*this);
  const Panel& panel = panels_[run];
  const FlameRun& of = picture_->runs[run];
  const QRectF line(margin, panel.top, size.width() - 2 * margin, row_);
  painter.save();
  QFont bold = painter.font();
  bold.setBold(true);
  const QString whole = text_of(amount_text(picture_->of, picture_->tree.nodes[0].whole[run]));
  const QString head = text_of(of.title) + QStringLiteral(": ") + whole;
  painter.setFont(bold);
  painter.setPen(theme.ink);
  painter.drawText(line, Qt::AlignVCenter | Qt::TextSingleLine, head);
  const double head_width = QFontMetricsF(bold).horizontalAdvance(head) + 10;
  painter.restore();
  QString about = picture_->of == FlameOf::time ? tr("device time of a step, streams added up")
                                                : tr("alive at the peak");
  if (!of.about.empty()) about += QStringLiteral("; ") + text_of(of.about);
  painter.setPen(theme.faint_ink);
  painter.drawText(
      line.adjusted(head_width, 0, 0, 0), Qt::AlignVCenter | Qt::TextSingleLine,
      QFontMetricsF(painter.font()).elidedText(about, Qt::ElideRight, line.width() - head_width));
  if (panel.boxes.empty())
    painter.drawText(line.translated(0, row_), Qt::AlignVCenter | Qt::TextSingleLine,
                     tr("nothing of the node that is zoomed to"));
  for (const FlameBox& box : panel.boxes)
    draw_box(painter, box, rectangle_in(panel, box, size.width()), run);
}

QColor FlameCanvas::colour_of(const FlameNode& node, const Theme& theme) const {
  if (node.depth == 0) return theme.idle;
  if (picture_->of == FlameOf::memory)
    return node.look.category ? theme.of(*node.look.category) : theme.of_band(unknown_band);
  // Above leaves of several kinds the phase tells more than the kind of the largest.
  const OperationKind kind = node.child_count > 0 ? OperationKind::compute : node.look.kind;
  if (kind == OperationKind::compute && node.look.phase == Phase::other)
    return theme.of(SpanClass::compute);
  return theme.of(kind, node.look.phase);
}

bool FlameCanvas::is_faded(std::uint32_t node) const { return !is_lit_.empty() && !is_lit_[node]; }

void FlameCanvas::draw_box(QPainter& painter, const FlameBox& box, const QRectF& where,
                           std::size_t run) const {
  const Theme& theme = theme_of(*this);
  const FlameNode& node = picture_->tree.nodes[box.node];
  const QColor colour = colour_of(node, theme);
  const bool is_hollow = picture_->runs[run].side == SideKind::predicted;
  const bool is_inner = node.child_count > 0;
  double fill = is_hollow ? hollow_fill : is_inner ? around_fill : 1;
  const double strength = is_faded(box.node) ? faded : 1;
  const QRectF inside = where.adjusted(0, 0, where.width() > 3 ? -1 : 0, -1);
  painter.fillRect(inside, with_alpha(colour, fill * strength));
  painter.setBrush(Qt::NoBrush);
  if (is_hollow && where.width() > 3) {
    painter.setPen(QPen(with_alpha(colour, strength), is_inner ? 1 : 1.6,
                        picture_->runs[run].is_ghost ? Qt::DashLine : Qt::SolidLine));
    painter.drawRect(inside.adjusted(0.8, 0.8, -0.8, -0.8));
  }
  if (box.node == current_ && current_ != 0) {
    painter.setPen(QPen(theme.ink, 2));
    painter.drawRect(inside.adjusted(1, 1, -1, -1));
  } else if (hovered_ == box.node) {
    painter.setPen(QPen(theme.ink, 1, Qt::DashLine));
    painter.drawRect(inside.adjusted(0.5, 0.5, -0.5, -0.5));
  }
  if (where.width() < least_named) return;
  const bool is_on_fill = !is_hollow && !is_inner && strength == 1;
  painter.setPen(
      with_alpha(is_on_fill ? theme.text_on(colour) : theme.ink, strength == 1 ? 1 : 0.55));
  const QFontMetrics metrics(painter.font());
  const QRectF text = inside.adjusted(4, 0, -4, 0);
  const QString name = node.depth == 0 ? tr("all") : text_of(node.name);
  const QString amount = text_of(amount_text(picture_->of, node.whole[run]));
  const QString shown = elided_name(name, common_of(name), metrics, static_cast<int>(text.width()));
  if (shown != name && shown.size() <= least_letters) return;
  painter.drawText(text, Qt::AlignVCenter | Qt::TextSingleLine, shown);
  if (text.width() > metrics.horizontalAdvance(name) + metrics.horizontalAdvance(amount) + 14)
    painter.drawText(text, Qt::AlignVCenter | Qt::AlignRight | Qt::TextSingleLine, amount);
}

void FlameCanvas::draw_legend(QPainter& painter, QRectF where) const {
  const Theme& theme = theme_of(*this);
  // In the order of categories, or of colours.
  std::map<std::size_t, std::pair<QColor, QString>> entries;
  for (const FlameNode& node : picture_->tree.nodes) {
    if (node.child_count > 0 || node.depth == 0) continue;
    const SpanColour colour = colour_of_kind(node.look);
    const std::size_t band =
        node.look.category ? static_cast<std::size_t>(*node.look.category) : unknown_band;
    const bool is_memory = picture_->of == FlameOf::memory;
    const std::size_t place = is_memory ? band : static_cast<std::size_t>(colour);
    if (entries.contains(place)) continue;
    entries[place] = {colour_of(node, theme),
                      text_of(is_memory ? band_name(band) : name_of(colour))};
  }
  const QFontMetricsF metrics(painter.font());
  double x = where.left() + margin;
  for (const auto& [place, entry] : entries) {
    painter.fillRect(QRectF(x, where.center().y() - 5, 12, 10), entry.first);
    painter.setPen(theme.faint_ink);
    painter.drawText(QPointF(x + 17, where.center().y() + metrics.ascent() / 2 - 1), entry.second);
    x += 32 + metrics.horizontalAdvance(entry.second);
  }
}

}  // namespace shardscope::gui
