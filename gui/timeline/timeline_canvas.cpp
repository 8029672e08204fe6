#include "gui/timeline/timeline_canvas.h"

#include <QEvent>
#include <QHelpEvent>
#include <QInputDialog>
#include <QLineEdit>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "gui/base/spoken.h"
#include "gui/base/text.h"
#include "gui/timeline/span_details.h"
#include "gui/timeline/span_links.h"
#include "gui/timeline/timeline_drawing.h"

namespace shardscope::gui {
namespace {

constexpr double axis_height = 20;
constexpr double wheel_rows = 60;  ///< logical pixels for a notch
constexpr double snap_pixels = 8;
constexpr double least_lane = 8, most_lane = 60;
constexpr double widest_note = 220;
constexpr std::size_t most_drawn_flows = 400;
constexpr double least_flow_distance = 7;           ///< pixels between the heads of two
constexpr std::size_t most_looked_at_flows = 3000;  ///< some of them end in rows out of sight
constexpr qsizetype most_note_text = 500;           ///< characters
/// Of a lane whose height was not chosen: more where there is room.
constexpr double usual_lane = 18, widest_usual_lane = 26;

}  // namespace

TimelineCanvas::TimelineCanvas(Workspace& workspace, QWidget* parent)
    : TimeCanvas(workspace, parent) {
  let_speak(*this);
  setAccessibleName(tr("Timeline of streams"));
  setObjectName(QStringLiteral("timeline_canvas"));
  connect(&workspace, &Workspace::selection_changed, this, &TimelineCanvas::find_selection);
  for (const auto signal : {&Workspace::notes_changed, &Workspace::marks_changed})
    connect(&workspace, signal, this, [this] { update(); });
}

void TimelineCanvas::show_data(std::shared_ptr<const TimelineData> prepared) {
  data_ = std::move(prepared);
  selected_.reset();
  linked_.clear();
  hits_ = std::make_shared<const SearchHits>();
  current_hit_.reset();
  lay_out();
  find_selection();
  find_flows();
}

void TimelineCanvas::show_hits(std::shared_ptr<const SearchHits> hits) {
  hits_ = std::move(hits);
  current_hit_.reset();
  update();
}

void TimelineCanvas::show_current_hit(const SearchHit& hit) {
  current_hit_ = hit;
  update();
}

void TimelineCanvas::lay_out() {
  if (!height_is_chosen_) fit_lane_height();
  rows_ = lay_out_rows(*data_, choices_);
  scroll_ = std::clamp(scroll_, 0.0, scroll_end());
  frame_ = {};
  update();
  Q_EMIT rows_changed();
}

void TimelineCanvas::fit_lane_height() {
  choices_.lane_height = usual_lane;
  const TimelineRows rows = lay_out_rows(*data_, choices_);
  const double room = height() - axis_height - rows.pinned_height;
  choices_.lane_height = usual_lane + 1;
  const double for_each_pixel = lay_out_rows(*data_, choices_).height - rows.height;
  const double more = for_each_pixel > 0 ? std::floor((room - rows.height) / for_each_pixel) : 0.0;
  choices_.lane_height = std::clamp(usual_lane + more, usual_lane, widest_usual_lane);
}

double TimelineCanvas::content_height() const {
  return axis_height + rows_.pinned_height + rows_.height;
}

double TimelineCanvas::scroll_end() const { return std::max(0.0, content_height() - height()); }

void TimelineCanvas::scroll_to(double scroll) {
  const double next = std::clamp(scroll, 0.0, scroll_end());
  if (next == scroll_) return;
  scroll_ = next;
  update();
  Q_EMIT scrolled();
}

void TimelineCanvas::set_lane_height(double height) {
  height_is_chosen_ = true;
  choices_.lane_height = std::clamp(height, least_lane, most_lane);
  lay_out();
}

void TimelineCanvas::toggle(const std::string& key) {
  if (choices_.toggled.erase(key) == 0) choices_.toggled.insert(key);
  lay_out();
}

bool TimelineCanvas::is_pinned(const TimelineRow& row) const {
  return choices_.pinned.contains(row.key);
}

void TimelineCanvas::pin_row() {
  const TimelineRow* row = mouse() ? row_under(*mouse()) : nullptr;
  if (row == nullptr && selected_) row = row_of(*selected_);
  if (row == nullptr || row->is_heading()) return;
  const std::string key = row->key;
  if (choices_.pinned.erase(key) == 0) choices_.pinned.insert(key);
  lay_out();
}

const TimelineRow* TimelineCanvas::row_under(QPointF at) const {
  const double y = at.y() - axis_height;
  if (y < 0) return nullptr;
  if (y < rows_.pinned_height) return row_at(rows_.pinned, y);
  return row_at(rows_.rows, y - rows_.pinned_height + scroll_);
}

double TimelineCanvas::top_of(const TimelineRow& row) const {
  const bool is_in_pinned =
      !rows_.pinned.empty() && &row >= &rows_.pinned.front() && &row <= &rows_.pinned.back();
  return axis_height + row.top + (is_in_pinned ? 0 : rows_.pinned_height - scroll_);
}

const TimelineRow* TimelineCanvas::row_of(const SpanPlace& place) const {
  for (const auto* rows : {&rows_.pinned, &rows_.rows})
    for (const TimelineRow& row : *rows)
      if (row.kind == RowKind::lane && row.source == place.source && row.track == place.track &&
          row.lane == place.lane)
        return &row;
  return nullptr;
}

std::optional<SpanPlace> TimelineCanvas::place_at(QPointF at) const {
  const TimelineRow* row = row_under(at);
  const TimeScale now = scale();
  if (row == nullptr || row->kind != RowKind::lane || at.x() < now.left) return std::nullopt;
  const TimeMap& map = data_->maps[row->source];
  const SpanLane& lane = data_->sources[row->source]->tracks[row->track].lanes[row->lane];
  const auto clock = [&](double x) {
    return static_cast<std::int64_t>(std::floor(map.clock_of(now.time_at(x))));
  };
  // A span that is less than a pixel wide is found within a pixel of the mouse.
  const std::size_t first = lane.first_ending_after(clock(at.x() - 1));
  const std::size_t under = lane.first_ending_after(clock(at.x()));
  const std::int64_t limit = clock(at.x() + 1);
  for (const std::size_t i : {under, first})
    if (i < lane.size() && lane.begin(i) <= limit)
      return SpanPlace{row->source, row->track, row->lane, i};
  return std::nullopt;
}

QRectF TimelineCanvas::rectangle_of(const SpanPlace& place) const {
  const TimelineRow* row = row_of(place);
  if (row == nullptr) return {};
  const TimeScale now = scale();
  const TimeRange range = axis_range(*data_, place);
  const double from = std::max(now.left, now.x_of(range.begin));
  const double to = std::min(now.left + now.width, now.x_of(range.end));
  const double top = top_of(*row);
  const double least = &*row >= rows_.rows.data() ? axis_height + rows_.pinned_height : axis_height;
  if (to < from || top + row->height <= least || top >= height()) return {};
  return QRectF(from, top, std::max(1.0, to - from), row->height);
}

void TimelineCanvas::click(QPointF at, Qt::KeyboardModifiers) {
  if (const auto note = note_at(at)) return change_note(*note);
  const TimelineRow* row = row_under(at);
  if (row != nullptr && row->is_heading()) return toggle(row->key);
  if (at.x() < scale().left) return;
  if (const auto place = place_at(at))
    select_place(*place);
  else
    workspace().select({});
}

void TimelineCanvas::select_place(const SpanPlace& place) {
  const TimelineRank& rank = *data_->sources[place.source];
  const std::uint32_t id = lane_of(*data_, place).id(place.index);
  Selection selection{.scenario = rank.scenario, .side = rank.side, .rank = rank.rank};
  selection.time = axis_range(*data_, place);
  selection.operation = operation_of(*data_, place);
  if (const OperationFacts* facts = rank.facts_of(selection.operation))
    selection.unit = facts->unit;
  switch (rank.tracks[place.track].items) {
    case LaneItems::spans:
      selection.span = id;
      break;
    case LaneItems::events:
      selection.event = id;
      break;
    case LaneItems::sections:
      selection.unit = rank.sections[id].unit;
      break;
  }
  selected_ = place;
  is_selecting_ = true;
  workspace().select(selection);
  is_selecting_ = false;
  find_links();
}

void TimelineCanvas::find_selection() {
  if (is_selecting_) return;
  const Selection& selection = workspace().selection();
  selected_.reset();
  linked_.clear();
  linking_.request_stop();
  update();
  if (selection.empty() || !selection.scenario) {
    Q_EMIT place_selected();
    return;
  }
  linking_ = workspace().tasks().run(
      this,
      [data = data_, selection](std::stop_token) { return place_of_selection(*data, selection); },
      [this](const std::optional<SpanPlace>& place) {
        selected_ = place;
        find_links();
        if (std::exchange(wants_sight_, false) && selected_) bring_into_sight(*selected_);
      });
}

void TimelineCanvas::bring_selection_into_sight() {
  if (selected_) return bring_into_sight(*selected_);
  wants_sight_ = true;
  find_selection();
}

void TimelineCanvas::find_links() {
  linking_.request_stop();
  linked_.clear();
  update();
  Q_EMIT place_selected();
  if (!selected_) return;
  linking_ = workspace().tasks().run(
      this,
      [data = data_, place = *selected_](std::stop_token) { return linked_spans(*data, place); },
      [this](const std::vector<SpanPlace>& links) {
        linked_ = links;
        update();
      });
}

void TimelineCanvas::show_flows(bool shown) {
  if (shown == shows_flows_) return;
  shows_flows_ = shown;
  find_flows();
  Q_EMIT flows_shown(shown);
}

void TimelineCanvas::find_flows() {
  flowing_.request_stop();
  flows_.clear();
  update();
  if (!shows_flows_ || data_->sources.empty()) return;
  flowing_ = workspace().tasks().run(
      this, [data = data_](const std::stop_token& stop) { return flow_lines(*data, stop); },
      [this](std::vector<FlowLine> lines) {
        flows_ = std::move(lines);
        update();
      });
}

void TimelineCanvas::go_to(const SpanPlace& place) {
  select_place(place);
  bring_into_sight(place);
}

void TimelineCanvas::bring_into_sight(const SpanPlace& place) {
  const TimeRange range = axis_range(*data_, place), visible = workspace().visible();
  if (range.end < visible.begin || range.begin > visible.end) {
    const double length = visible.length();
    workspace().show({.begin = range.middle() - length / 2, .end = range.middle() + length / 2});
  }
  if (row_of(place) == nullptr) {
    // Its heading is closed: open what is above it.
    for (const std::string& key : headings_of(*data_, choices_, place)) toggle(key);
  }
  const TimelineRow* row = row_of(place);
  if (row == nullptr) return;
  const double room = height() - axis_height - rows_.pinned_height;
  if (row->top < scroll_) scroll_to(row->top - room / 4);
  if (row->bottom() > scroll_ + room) scroll_to(row->bottom() - room * 3 / 4);
}

std::optional<SpanPlace> TimelineCanvas::span_at(const TimelineRow& row, double time) const {
  if (row.kind != RowKind::lane) return std::nullopt;
  const SpanLane& lane = data_->sources[row.source]->tracks[row.track].lanes[row.lane];
  if (lane.empty()) return std::nullopt;
  const double clock = std::floor(data_->maps[row.source].clock_of(time));
  const std::size_t found = lane.first_ending_after(static_cast<std::int64_t>(clock));
  return SpanPlace{row.source, row.track, row.lane, std::min(found, lane.size() - 1)};
}

void TimelineCanvas::select_first_in_sight() {
  for (const TimelineRow& row : rows_.rows) {
    if (row.bottom() <= scroll_) continue;
    if (const auto place = span_at(row, workspace().visible().begin)) return go_to(*place);
  }
}

void TimelineCanvas::step_across_lanes(int by) {
  if (!selected_) return select_first_in_sight();
  const auto is_own = [this](const TimelineRow& row) {
    return row.kind == RowKind::lane && row.source == selected_->source &&
           row.track == selected_->track && row.lane == selected_->lane;
  };
  const double time = axis_range(*data_, *selected_).middle();
  const auto own = std::find_if(rows_.rows.begin(), rows_.rows.end(), is_own);
  const auto size = std::ssize(rows_.rows);
  for (auto at = own - rows_.rows.begin() + by; at >= 0 && at < size; at += by)
    if (const auto place = span_at(rows_.rows[static_cast<std::size_t>(at)], time))
      return go_to(*place);
}

void TimelineCanvas::step_along_lane(int by) {
  if (!selected_) return select_first_in_sight();
  SpanPlace next = *selected_;
  const std::size_t size = lane_of(*data_, next).size();
  if (by < 0 ? next.index == 0 : next.index + 1 >= size) return;
  next.index = by < 0 ? next.index - 1 : next.index + 1;
  go_to(next);
}

void TimelineCanvas::follow_link(int by) {
  const auto own = std::find(linked_.begin(), linked_.end(), selected_);
  if (own == linked_.end() || linked_.size() < 2) return;
  const auto size = static_cast<std::ptrdiff_t>(linked_.size());
  const auto place = ((own - linked_.begin()) + by + size) % size;
  go_to(SpanPlace(linked_[static_cast<std::size_t>(place)]));
}

double TimelineCanvas::snapped(double time, QPointF at) const {
  const auto place = place_at(at);
  if (!place) return time;
  const TimeScale now = scale();
  const TimeRange range = axis_range(*data_, *place);
  for (const double edge : {range.begin, range.end})
    if (std::abs(now.x_of(edge) - at.x()) <= snap_pixels) return edge;
  return time;
}

std::vector<Command> TimelineCanvas::commands() {
  std::vector<Command> all = TimeCanvas::commands();
  const QString group = tr("Timeline");
  const auto add = [&](const QString& text, QList<QKeySequence> keys, std::function<void()> run) {
    all.push_back({.group = group, .text = text, .keys = std::move(keys), .run = std::move(run)});
  };
  add(tr("Next span of the lane"), {Qt::Key_Period}, [this] { step_along_lane(1); });
  add(tr("Previous span of the lane"), {Qt::Key_Comma}, [this] { step_along_lane(-1); });
  add(tr("Span of the lane above"), {QKeySequence(Qt::ALT | Qt::Key_Up)},
      [this] { step_across_lanes(-1); });
  add(tr("Span of the lane below"), {QKeySequence(Qt::ALT | Qt::Key_Down)},
      [this] { step_across_lanes(1); });
  add(tr("Follow: other side, other ranks, launch"), {Qt::Key_BracketRight},
      [this] { follow_link(1); });
  add(tr("Follow backwards"), {Qt::Key_BracketLeft}, [this] { follow_link(-1); });
  add(tr("Write a note at this instant"), {Qt::Key_M}, [this] { write_note(); });
  all.push_back({.group = group,
                 .text = tr("Arrows of all flows"),
                 .keys = {Qt::Key_L},
                 .run = [this] { show_flows(!shows_flows_); },
                 .is_checked = [this] { return shows_flows_; }});
  add(tr("Pin or release the lane"), {Qt::Key_T}, [this] { pin_row(); });
  add(tr("Higher lanes"), {Qt::Key_Plus, Qt::Key_Equal},
      [this] { set_lane_height(choices_.lane_height + 4); });
  add(tr("Lower lanes"), {Qt::Key_Minus}, [this] { set_lane_height(choices_.lane_height - 4); });
  add(tr("Up"), {Qt::Key_Up}, [this] { scroll_to(scroll_ - wheel_rows); });
  add(tr("Down"), {Qt::Key_Down}, [this] { scroll_to(scroll_ + wheel_rows); });
  add(tr("Page up"), {Qt::Key_PageUp}, [this] { scroll_to(scroll_ - height() * 0.8); });
  add(tr("Page down"), {Qt::Key_PageDown}, [this] { scroll_to(scroll_ + height() * 0.8); });
  add(tr("Open or close all ranks"), {Qt::Key_E}, [this] {
    for (const std::string& key : rank_keys(rows_)) {
      if (choices_.toggled.erase(key) == 0) choices_.toggled.insert(key);
    }
    lay_out();
  });
  return all;
}

bool TimelineCanvas::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return TimeCanvas::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const auto place = place_at(help->pos());
  if (place) {
    QToolTip::showText(help->globalPos(), as_rich_text(span_details(*data_, *place)), this);
  } else if (const TimelineRow* row = row_under(help->pos()); row != nullptr) {
    QToolTip::showText(help->globalPos(), row_help(*data_, *row, scale(), help->pos().x()), this);
  } else {
    QToolTip::hideText();
  }
  return true;
}

void TimelineCanvas::mouseDoubleClickEvent(QMouseEvent* event) {
  const auto place = place_at(event->position());
  if (!place) return;
  select_place(*place);
  workspace().show(with_margin(axis_range(*data_, *place), 0.5));
}

void TimelineCanvas::wheelEvent(QWheelEvent* event) {
  const double notches = event->angleDelta().y() / 120.0;
  const bool is_control = event->modifiers() & Qt::ControlModifier;
  const bool is_shift = event->modifiers() & Qt::ShiftModifier;
  if (is_control && is_shift) {
    set_lane_height(choices_.lane_height + 2 * notches);
  } else if (is_control || is_shift) {
    return TimeCanvas::wheelEvent(event);
  } else {
    scroll_to(scroll_ - notches * wheel_rows);
  }
  event->accept();
}

void TimelineCanvas::resizeEvent(QResizeEvent* event) {
  TimeCanvas::resizeEvent(event);
  lay_out();
}

void TimelineCanvas::draw(QPainter& painter, QSize size) {
  const Theme& theme = theme_of(*this);
  painter.fillRect(QRect(QPoint(), size), theme.background);
  if (data_->sources.empty()) return draw_empty(painter, size);
  draw_axis(painter, scale_for(size.width()), 0, axis_height);
  draw_rows(painter, size);
  painter.save();
  painter.setClipRect(QRectF(0, axis_height, size.width(), size.height() - axis_height));
  draw_marks(painter);
  draw_labels(painter, size);
  painter.restore();
  draw_found(painter, size);
  draw_notes(painter, size);
  draw_cursors(painter, scale_for(size.width()), axis_height, size.height());
}

/// What a query found: a bar at the axis, and its stretch over all rows.
void TimelineCanvas::draw_found(QPainter& painter, QSize size) const {
  const std::vector<TimeRange>& marks = *workspace().marks();
  const TimeScale now = scale_for(size.width());
  const Theme& theme = theme_of(*this);
  // By pixel: marks may be many, and lie over one another.
  const auto width = static_cast<std::size_t>(now.width) + 1;
  std::vector<int> change(width + 1);
  for (const TimeRange& mark : marks) {
    const double from = now.x_of(mark.begin) - now.left, to = now.x_of(mark.end) - now.left;
    if (to < 0 || from >= static_cast<double>(width)) continue;
    const double last = std::min(to, static_cast<double>(width) - 1);
    ++change[static_cast<std::size_t>(std::max(0.0, from))];
    --change[static_cast<std::size_t>(std::max(0.0, last)) + 1];
  }
  QColor veil = theme.more;
  veil.setAlpha(46);
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t x = 0; x <= width; ++x) {
    const int before = std::exchange(depth, x < width ? depth + change[x] : 0);
    if (before == 0 && depth > 0) begin = x;
    if (before == 0 || depth > 0) continue;
    const double from = now.left + static_cast<double>(begin);
    const auto length = static_cast<double>(x - begin);
    painter.fillRect(QRectF(from, axis_height - 4, length, 4), theme.more);
    painter.fillRect(QRectF(from, axis_height, length, size.height() - axis_height), veil);
  }
}

QRectF TimelineCanvas::rectangle_of(const TimeNote& note) const {
  const auto time = workspace().axis_time_of(note);
  if (!time) return {};
  const TimeScale now = scale();
  const double x = now.x_of(*time);
  if (x < now.left || x > now.left + now.width) return {};
  const QFontMetricsF metrics(font());
  const double text = metrics.horizontalAdvance(text_of(note.text)) + 10;
  return QRectF(x, axis_height + 2, std::min(widest_note, text), metrics.height() + 4);
}

void TimelineCanvas::draw_notes(QPainter& painter, QSize size) const {
  const Theme& theme = theme_of(*this);
  for (const TimeNote& note : workspace().notes()) {
    const QRectF where = rectangle_of(note);
    if (where.isNull()) continue;
    painter.setPen(QPen(theme.accent, 1.5));
    painter.drawLine(QPointF(where.left(), axis_height - 6), QPointF(where.left(), size.height()));
    painter.fillRect(where, theme.accent);
    painter.setPen(theme.text_on(theme.accent));
    const QFontMetricsF metrics(painter.font());
    painter.drawText(where.adjusted(5, 0, -3, 0), Qt::AlignVCenter | Qt::TextSingleLine,
                     metrics.elidedText(text_of(note.text), Qt::ElideRight, where.width() - 8));
  }
}

std::optional<std::size_t> TimelineCanvas::note_at(QPointF at) const {
  const std::vector<TimeNote>& notes = workspace().notes();
  for (std::size_t i = notes.size(); i-- > 0;)
    if (rectangle_of(notes[i]).contains(at)) return i;
  return std::nullopt;
}

void TimelineCanvas::write_note() {
  const auto& selected = workspace().selection().time;
  const double time = workspace().cursors().hover.value_or(
      selected ? selected->begin : workspace().visible().middle());
  if (!workspace().note_at(time, {})) return;
  bool is_wanted = false;
  const QString text = QInputDialog::getText(this, tr("Note"), tr("Text of the note:"),
                                             QLineEdit::Normal, {}, &is_wanted);
  if (!is_wanted || text.trimmed().isEmpty()) return;
  std::vector<TimeNote> notes = workspace().notes();
  notes.push_back(*workspace().note_at(time, text.trimmed().left(most_note_text).toStdString()));
  workspace().set_notes(std::move(notes));
}

void TimelineCanvas::change_note(std::size_t note) {
  std::vector<TimeNote> notes = workspace().notes();
  bool is_wanted = false;
  const QString text =
      QInputDialog::getText(this, tr("Note"), tr("Text of the note (empty: remove it):"),
                            QLineEdit::Normal, text_of(notes[note].text), &is_wanted);
  if (!is_wanted) return;
  if (text.trimmed().isEmpty())
    notes.erase(notes.begin() + static_cast<std::ptrdiff_t>(note));
  else
    notes[note].text = text.trimmed().left(most_note_text).toStdString();
  workspace().set_notes(std::move(notes));
}

void TimelineCanvas::draw_rows(QPainter& painter, QSize size) {
  const TimeScale now = scale_for(size.width());
  const FrameRequest wanted{
      .range = now.range,
      .size = QSize(static_cast<int>(now.width), size.height() - static_cast<int>(axis_height)),
      .ratio = painter.device()->devicePixelRatioF(),
      .scroll = scroll_,
      .font = font()};
  const Theme& theme = theme_of(*this);
  if (frame_.isNull() || frame_of_ != wanted || frame_appearance_ != theme.appearance) {
    frame_ = draw_frame(*data_, rows_, wanted, theme);
    frame_of_ = wanted;
    frame_appearance_ = theme.appearance;
  }
  painter.drawImage(QPointF(now.left, axis_height), frame_);
}

void TimelineCanvas::draw_labels(QPainter& painter, QSize size) const {
  const Theme& theme = theme_of(*this);
  painter.fillRect(QRectF(0, axis_height, label_width() - 1, size.height()), theme.lane);
  for (const TimelineRow& row : rows_.rows) {
    const double top = axis_height + rows_.pinned_height + row.top - scroll_;
    if (top > size.height()) break;
    if (top + row.height > axis_height + rows_.pinned_height) draw_row_label(painter, row, top);
  }
  if (rows_.pinned.empty()) return;
  painter.fillRect(QRectF(0, axis_height, label_width() - 1, rows_.pinned_height), theme.lane);
  for (const TimelineRow& row : rows_.pinned) draw_row_label(painter, row, axis_height + row.top);
  painter.setPen(QPen(theme.accent, 1));
  const double bottom = axis_height + rows_.pinned_height;
  painter.drawLine(QPointF(0, bottom), QPointF(size.width(), bottom));
}

void TimelineCanvas::draw_row_label(QPainter& painter, const TimelineRow& row, double top) const {
  draw_label(painter, theme_of(*this), row,
             QRectF(0, top, row.is_heading() ? width() : label_width() - 1, row.height),
             is_pinned(row));
}

void TimelineCanvas::draw_marks(QPainter& painter) const {
  const Theme& theme = theme_of(*this);
  const auto mark = [&](const SearchHit& hit, double width) {
    const QRectF where = rectangle_of(hit.place);
    if (where.isNull()) return;
    painter.setPen(QPen(theme.more, width));
    painter.drawRect(where.adjusted(0, 0, 0, -1));
  };
  if (shows_flows_) draw_flows(painter);
  for (const SearchHit& hit : hits_in(hits_->hits, workspace().visible())) mark(hit, 1);
  if (current_hit_) mark(*current_hit_, 3);
  if (!selected_) return;
  const QRectF own = rectangle_of(*selected_);
  draw_links(painter, own);
  if (own.isNull()) return;
  painter.setPen(QPen(theme.ink, 2.5));
  painter.drawRect(own.adjusted(0, 0, 0, -1));
}

/// As `rectangle_of`, at the edge where it is out of sight; null where its row is closed.
QRectF TimelineCanvas::anchor_of(const SpanPlace& place) const {
  const TimelineRow* row = row_of(place);
  return row == nullptr ? QRectF() : anchor_on(*row, place);
}

QRectF TimelineCanvas::anchor_on(const TimelineRow& row, const SpanPlace& place) const {
  const TimeScale now = scale();
  const TimeRange range = axis_range(*data_, place);
  const auto seen = [&](double time) {
    return std::clamp(now.x_of(time), now.left, now.left + now.width);
  };
  const double from = seen(range.begin), to = seen(range.end);
  return QRectF(from, top_of(row), std::max(1.0, to - from), row.height);
}

/// As `anchor_of`; of what lies on a closed host or rank, at its heading.
QRectF TimelineCanvas::flow_end(const SpanPlace& place) const {
  if (const QRectF own = anchor_of(place); !own.isNull()) return own;
  const bool is_host = data_->sources[place.source]->tracks[place.track].group >= TrackGroup::host;
  const TimelineRow* heading = nullptr;
  for (const TimelineRow& row : rows_.rows) {
    const TimelineBlock& block = data_->blocks[row.block];
    const bool is_of_rank = block.predicted == place.source || block.profiled == place.source;
    if (!row.is_heading() || row.is_open || !is_of_rank) continue;
    if (row.kind == RowKind::rank || is_host) heading = &row;
  }
  if (heading == nullptr) return {};
  return anchor_on(*heading, place);
}

std::vector<FlowLine> TimelineCanvas::drawn_flows() const {
  const auto is_seen = [this](const QRectF& where) {
    return !where.isNull() && where.bottom() > axis_height && where.top() < height();
  };
  std::vector<FlowLine> seen;
  // Arrows from one lane to another that end side by side say the same.
  std::map<std::pair<double, double>, double> last;  // where it ended, by the rows' tops
  for (const FlowLine& line : flows_in(flows_, workspace().visible(), most_looked_at_flows)) {
    const QRectF from = flow_end(line.from), to = flow_end(line.to);
    if (from.isNull() || to.isNull() || (!is_seen(from) && !is_seen(to))) continue;
    const auto [before, is_first] = last.try_emplace({from.top(), to.top()}, to.left());
    if (!is_first && to.left() - before->second < least_flow_distance) continue;
    before->second = to.left();
    seen.push_back(line);
  }
  return flows_in(seen, workspace().visible(), most_drawn_flows);
}

void TimelineCanvas::draw_flows(QPainter& painter) const {
  const Theme& theme = theme_of(*this);
  for (const FlowLine& line : drawn_flows())
    draw_flow(painter, theme, flow_end(line.from), flow_end(line.to), line.is_peer);
}

/// What belongs to the selection: the same operation elsewhere by a dashed line; what a flow or a
/// launch leads to by an arrow from the producer's end to the consumer's begin.
void TimelineCanvas::draw_links(QPainter& painter, const QRectF& own) const {
  const Theme& theme = theme_of(*this);
  for (const SpanPlace& other : linked_) {
    if (other == *selected_) continue;
    const QRectF there = rectangle_of(other);
    if (!there.isNull()) {
      painter.setPen(QPen(theme.ink, 1.5, Qt::DashLine));
      painter.drawRect(there.adjusted(0, 0, 0, -1));
    }
    if (other.source != selected_->source) {
      if (!own.isNull() && !there.isNull()) painter.drawLine(own.center(), there.center());
      continue;
    }
    const QRectF from = anchor_of(*selected_), to = anchor_of(other);
    if (from.isNull() || to.isNull()) continue;
    const bool leads_there =
        axis_range(*data_, *selected_).begin <= axis_range(*data_, other).begin;
    draw_arrow(painter, theme, leads_there ? from : to, leads_there ? to : from);
  }
}

void TimelineCanvas::draw_empty(QPainter& painter, QSize size) const {
  painter.setPen(theme_of(*this).faint_ink);
  const QString text = workspace().a()
                           ? tr("This scenario has no trace: open a run, or a trace of it.")
                           : tr("Open a run folder or a trace to see its streams here.");
  painter.drawText(QRect(QPoint(), size), Qt::AlignCenter | Qt::TextWordWrap, text);
}

}  // namespace shardscope::gui
