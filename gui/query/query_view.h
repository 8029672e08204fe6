// Query: SQL over what is open, its rows as a table and as marks in the timeline.
#pragma once

#include <stop_token>
#include <vector>

#include "gui/base/view.h"
#include "gui/data/query_answer.h"

class QComboBox;
class QLabel;
class QPlainTextEdit;
class QPushButton;
class QTreeWidget;

namespace shardscope::gui {

class ColumnTableModel;
class TablePane;

/// Runs beside the UI thread, and can be stopped. A row that names a span selects it for all views.
class QueryView : public View {
  Q_OBJECT
 public:
  explicit QueryView(Workspace& workspace, QWidget* parent = nullptr);

  QAbstractItemModel* table() override;
  std::vector<Command> commands() override;

  void set_sql(const QString& sql);
  void run();
  void stop();
  void clear_marks();
  TablePane& rows() const { return *pane_; }
  QString status() const;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  QWidget* make_editor();
  QTreeWidget* make_schema();
  void take(QueryAnswer answer);
  void show_row(int place);
  void say(const QString& text, bool is_error);
  void set_running(bool is_running);

  QPlainTextEdit* sql_;
  QComboBox* examples_;
  QPushButton* run_;
  QPushButton* stop_;
  QPushButton* clear_;
  QLabel* status_;
  ColumnTableModel* model_;
  TablePane* pane_;
  QueryAnswer answer_;
  std::stop_source asking_;
  bool is_running_ = false;
  bool has_asked_ = false;
};

}  // namespace shardscope::gui
