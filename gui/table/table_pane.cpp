#include "gui/table/table_pane.h"

#include <QApplication>
#include <QClipboard>
#include <QHeaderView>
#include <QKeyEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QScrollBar>
#include <algorithm>
#include <utility>

#include "gui/table/cell_delegate.h"
#include "gui/table/column_table_model.h"

namespace shardscope::gui {
namespace {

constexpr int rows_measured = 60;  ///< by which columns get their widths
constexpr int narrowest = 64, widest = 440;

/// Narrowest that has the title on two lines.
int header_width(const QFontMetrics& metrics, const QString& title) {
  constexpr int beside = 32;  // the arrow of the order, too
  int best = metrics.horizontalAdvance(title);
  for (qsizetype at = title.indexOf(QLatin1Char(' ')); at >= 0;
       at = title.indexOf(QLatin1Char(' '), at + 1))
    best = std::min(best, std::max(metrics.horizontalAdvance(title.left(at)),
                                   metrics.horizontalAdvance(title.mid(at + 1))));
  return best + beside;
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

void TablePane::set_column_shown(int column, bool is_shown) { setColumnHidden(column, !is_shown); }

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
  const int bar = horizontalScrollBar()->sizeHint().height();
  return {600, horizontalHeader()->height() + rows * verticalHeader()->defaultSectionSize() + bar};
}

void TablePane::keyPressEvent(QKeyEvent* event) {
  const bool is_return = event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter;
  if (is_return && currentIndex().isValid()) {
    Q_EMIT chosen(currentIndex().row(), event->modifiers());
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

void TablePane::fit_columns() {
  std::vector<std::string> ids;
  for (const Column& column : model_.table().columns) ids.push_back(column.id);
  if (model_.rowCount() == 0 || ids == fitted_) return;
  const bool is_first = std::exchange(fitted_, ids) != ids;
  const QFontMetrics metrics = fontMetrics();
  for (int column = 0; is_first && column < model_.columnCount(); ++column) {
    const Column& of = model_.table().columns[static_cast<std::size_t>(column)];
    setColumnHidden(column, !of.is_shown_at_first);
    QStyleOptionViewItem option;
    option.fontMetrics = metrics;
    int width = narrowest;
    for (int row = 0; row < std::min(rows_measured, model_.rowCount()); ++row)
      width = std::max(width, delegate_->sizeHint(option, model_.index(row, column)).width());
    width = std::max(
        width, header_width(metrics,
                            model_.headerData(column, Qt::Horizontal, Qt::DisplayRole).toString()));
    if (column == 0) width += 60;  // for the marks
    setColumnWidth(column, std::min(width, widest));
  }
}

}  // namespace shardscope::gui
