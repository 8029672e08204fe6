// A table of figures: sorted by its header, columns chosen there, rows copied as text.
#pragma once

#include <QTableView>
#include <map>
#include <string>
#include <vector>

#include "gui/base/command.h"
#include "gui/data/column_table.h"
#include "gui/table/table_text.h"

namespace shardscope::gui {

class CellDelegate;
class ColumnTableModel;

class TablePane : public QTableView {
  Q_OBJECT
 public:
  TablePane(ColumnTableModel& model, const QString& name, QWidget* parent);

  ColumnTableModel& rows() const { return model_; }
  CellDelegate& cells() const { return *delegate_; }
  /// Of the selected rows, else of all.
  QString selected_text(TextForm form) const;
  void copy(TextForm form);
  /// Places of the selected rows, ascending.
  std::vector<int> selected_places() const;
  /// Makes the row of the table the current one, and brings it into view; nothing where it is
  /// filtered out.
  void reveal(std::uint32_t row);
  void set_column_shown(int column, bool is_shown);

  std::vector<Command> commands(const QString& group);

  /// As high as its rows, up to `most_rows_hinted`.
  QSize sizeHint() const override;

 Q_SIGNALS:
  /// Return was pressed, or a row clicked; `place` is a place of the model.
  void chosen(int place, Qt::KeyboardModifiers modifiers);
  /// Return was pressed, or a row clicked twice.
  void entered(int place);

 protected:
  void keyPressEvent(QKeyEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;

 private:
  void choose_columns(const QPoint& at);
  /// Those that were chosen, else those that are shown at first and have a value.
  void show_columns();
  void fit_columns();
  int width_of(int column) const;
  std::vector<int> shown_columns() const;

  static constexpr int most_rows_hinted = 10;

  ColumnTableModel& model_;
  CellDelegate* delegate_;
  std::map<std::string, bool> chosen_;  ///< columns shown or not, by id
  ColumnTablePointer fitted_;           ///< the table that columns were fitted to
};

}  // namespace shardscope::gui
