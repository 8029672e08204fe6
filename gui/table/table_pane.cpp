#include "gui/table/table_pane.h"

#include <QApplication>
#include <QClipboard>
#include <QHeaderView>
#include <QKeyEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QScrollBar>
#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/table/cell_delegate.h"
#include "gui/table/column_table_model.h"

namespace shardscope::gui {
namespace {

constexpr int rows_measured = 60;  ///< by which columns get their widths
constexpr int narrowest = 64, widest = 440;
constexpr int room_for_marks = 60;  ///< in the first column

/// What stands beside a header's text: margins, and the arrow of the order, which styles make half
/// as wide as the header is high.
int beside_title(const QHeaderView& header) {
  constexpr int slack = 6;
  const int margin = header.style()->pixelMetric(QStyle::PM_HeaderMargin, nullptr, &header);
  return header.height() / 2 + 4 * margin + slack;
}

/// Narrowest that has the title on two lines, ordered by it or not.
int header_width(const QHeaderView& header, const QString& title) {
  const QFontMetrics metrics = header.fontMetrics();
  int best = metrics.horizontalAdvance(title);
  for (qsizetype at = title.indexOf(QLatin1Char(' ')); at >= 0;
       at = title.indexOf(QLatin1Char(' '), at + 1))
    best = std::min(best, std::max(metrics.horizontalAdvance(title.left(at)),
                                   metrics.horizontalAdvance(title.mid(at + 1))));
  return best + beside_title(header);
}

bool has_same_columns(const ColumnTable& a, const ColumnTable& b) {
  return std::equal(a.columns.begin(), a.columns.end(), b.columns.begin(), b.columns.end(),
                    [](const Column& x, const Column& y) { return x.id == y.id; });
}

}  // namespace

TablePane::TablePane(ColumnTableModel& model, const QString& name, QWidget* parent)
    : QTableView(parent), model_(model), delegate_(new CellDelegate(model, this)) {
  setAccessibleName(name);
  setItemDelegate(delegate_);
  setSelectionBehavior(QAbstractItemView::SelectRows);
  setSelectionMode(QAbstractItemView::ExtendedSelection);
  setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);
  setAlternatingRowColors(true);
  setShowGrid(false);
  setTabKeyNavigation(false);
  setWordWrap(false);
  verticalHeader()->hide();
  verticalHeader()->setSectionResizeMode(QHeaderView::Fixed);
  verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 8);
  QHeaderView* header = horizontalHeader();
  header->setDefaultAlignment(Qt::AlignCenter | static_cast<Qt::Alignment>(Qt::TextWordWrap));
  header->setFixedHeight(fontMetrics().height() * 2 + 10);
  header->setSectionsMovable(true);
  header->setHighlightSections(false);
  header->setContextMenuPolicy(Qt::CustomContextMenu);
  header->setSortIndicatorShown(true);
  header->setSortIndicator(-1, Qt::AscendingOrder);
  connect(header, &QHeaderView::customContextMenuRequested, this, &TablePane::choose_columns);
  setModel(&model_);
  // Not setSortingEnabled(), which would sort by the first column at once.
  header->setSectionsClickable(true);
  connect(header, &QHeaderView::sortIndicatorChanged, this,
          [this](int column, Qt::SortOrder order) { model_.sort(column, order); });
  connect(&model_, &ColumnTableModel::arranged, this, &TablePane::fit_columns);
}

std::vector<int> TablePane::selected_places() const {
  std::vector<int> places;
  for (const QItemSelectionRange& range : selectionModel()->selection())
    for (int row = range.top(); row <= range.bottom(); ++row) places.push_back(row);
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

std::vector<int> TablePane::shown_columns() const {
  std::vector<int> columns;
  for (int visual = 0; visual < model_.columnCount(); ++visual) {
    const int column = horizontalHeader()->logicalIndex(visual);
    if (!isColumnHidden(column)) columns.push_back(column);
  }
  return columns;
}

QString TablePane::selected_text(TextForm form) const {
  std::vector<int> places = selected_places();
  for (int row = 0; places.empty() && row < model_.rowCount(); ++row) {
    places.resize(static_cast<std::size_t>(model_.rowCount()));
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int>(i);
  }
  return table_text(model_, places, shown_columns(), form);
}

void TablePane::copy(TextForm form) { QApplication::clipboard()->setText(selected_text(form)); }

void TablePane::reveal(std::uint32_t row) {
  const auto place = model_.place_of(row);
  if (!place || (currentIndex().row() == *place && !selected_places().empty())) return;
  const int column = std::max(0, currentIndex().column());
  setCurrentIndex(model_.index(*place, isColumnHidden(column) ? 0 : column));
  scrollTo(currentIndex(), QAbstractItemView::PositionAtCenter);
}

void TablePane::set_column_shown(int column, bool is_shown) {
  chosen_[model_.table().columns[static_cast<std::size_t>(column)].id] = is_shown;
  setColumnHidden(column, !is_shown);
}

std::vector<Command> TablePane::commands(const QString& group) {
  return {{.group = group,
           .text = tr("Copy rows as tab-separated text"),
           .keys = {QKeySequence::Copy},
           .run = [this] { copy(TextForm::tab_separated); }},
          {.group = group,
           .text = tr("Copy rows as Markdown"),
           .keys = {QKeySequence(Qt::CTRL | Qt::ALT | Qt::Key_C)},
           .run = [this] { copy(TextForm::markdown); }},
          {.group = group, .text = tr("Choose columns..."), .run = [this] {
             choose_columns(QPoint(0, horizontalHeader()->height()));
           }}};
}

QSize TablePane::sizeHint() const {
  const int rows = std::clamp(model_.rowCount(), 3, most_rows_hinted);
  const int bar = horizontalScrollBar()->sizeHint().height() + 2 * frameWidth() + 1;
  return {600, horizontalHeader()->height() + rows * verticalHeader()->defaultSectionSize() + bar};
}

void TablePane::keyPressEvent(QKeyEvent* event) {
  const bool is_return = event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter;
  if (is_return && currentIndex().isValid()) {
    Q_EMIT chosen(currentIndex().row(), event->modifiers());
    Q_EMIT entered(currentIndex().row());
    return event->accept();
  }
  if (event->matches(QKeySequence::Copy)) return copy(TextForm::tab_separated);
  const auto markdown = QKeyCombination(Qt::CTRL | Qt::ALT, Qt::Key_C);
  if (event->keyCombination() == markdown) return copy(TextForm::markdown);
  QTableView::keyPressEvent(event);
}

void TablePane::mouseReleaseEvent(QMouseEvent* event) {
  QTableView::mouseReleaseEvent(event);
  const QModelIndex at = indexAt(event->pos());
  if (at.isValid() && event->button() == Qt::LeftButton)
    Q_EMIT chosen(at.row(), event->modifiers());
}

void TablePane::mouseDoubleClickEvent(QMouseEvent* event) {
  QTableView::mouseDoubleClickEvent(event);
  const QModelIndex at = indexAt(event->pos());
  if (at.isValid() && event->button() == Qt::LeftButton) Q_EMIT entered(at.row());
}

void TablePane::choose_columns(const QPoint& at) {
  QMenu menu(this);
  for (int column = 0; column < model_.columnCount(); ++column) {
    QAction* action =
        menu.addAction(model_.headerData(column, Qt::Horizontal, Qt::DisplayRole).toString());
    action->setCheckable(true);
    action->setChecked(!isColumnHidden(column));
    action->setEnabled(column > 0);  // the name stays
    connect(action, &QAction::toggled, this,
            [this, column](bool is_shown) { set_column_shown(column, is_shown); });
  }
  menu.exec(horizontalHeader()->mapToGlobal(at));
}

void TablePane::show_columns() {
  const ColumnTable& table = model_.table();
  for (int column = 0; column < model_.columnCount(); ++column) {
    const Column& of = table.columns[static_cast<std::size_t>(column)];
    const auto chosen = chosen_.find(of.id);
    const bool has_any = of.is_text() || std::any_of(of.numbers.begin(), of.numbers.end(),
                                                     [](double n) { return !std::isnan(n); });
    setColumnHidden(column,
                    chosen == chosen_.end() ? !(of.is_shown_at_first && has_any) : !chosen->second);
  }
}

int TablePane::width_of(int column) const {
  QStyleOptionViewItem option;
  option.fontMetrics = fontMetrics();
  int width = header_width(*horizontalHeader(),
                           model_.headerData(column, Qt::Horizontal, Qt::DisplayRole).toString());
  for (int row = 0; row < std::min(rows_measured, model_.rowCount()); ++row)
    width = std::max(width, delegate_->sizeHint(option, model_.index(row, column)).width());
  if (column == 0) width += room_for_marks;
  return std::clamp(width, narrowest, widest);
}

void TablePane::fit_columns() {
  if (model_.rowCount() == 0 || fitted_ == model_.table_pointer()) return;
  const bool has_other_columns = !fitted_ || !has_same_columns(*fitted_, model_.table());
  fitted_ = model_.table_pointer();
  show_columns();
  // Widths stay as they were made; names that are longer than those before get their room.
  if (!has_other_columns) return setColumnWidth(0, std::max(columnWidth(0), width_of(0)));
  for (int column = 0; column < model_.columnCount(); ++column)
    setColumnWidth(column, width_of(column));
}

}  // namespace shardscope::gui
