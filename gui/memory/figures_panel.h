// A table of cells below a line of text, with a bar for each difference.
#pragma once

#include <QWidget>

#include "gui/memory/cells_model.h"

class QLabel;
class QTableView;

namespace shardscope::gui {

class FiguresPanel : public QWidget {
  Q_OBJECT
 public:
  /// `bar_column`: its numbers, shares of -1 to 1, are drawn as bars; -1: none.
  FiguresPanel(const QString& name, const QStringList& header, int bar_column, QWidget* parent);

  void show(const QString& text, std::vector<CellsModel::Row> rows);
  CellsModel* model() const { return model_; }
  QTableView* table() const { return table_; }
  QString text() const;

 private:
  QLabel* label_;
  CellsModel* model_;
  QTableView* table_;
};

}  // namespace shardscope::gui
