// Diagnostics: what was loaded, skipped and guessed, and which identities hold.
#pragma once

#include <map>
#include <stop_token>
#include <vector>

#include "gui/base/view.h"
#include "gui/diagnostics/findings_table.h"

class QLabel;
class QLineEdit;

namespace shardscope::gui {

class ColumnTableModel;
class TablePane;

class DiagnosticsView : public View {
  Q_OBJECT
 public:
  explicit DiagnosticsView(Workspace& workspace, QWidget* parent = nullptr);
  QAbstractItemModel* table() override;
  std::vector<Command> commands() override;

 private:
  using Known = std::map<ScenarioPointer, Diagnosis>;
  void diagnose();
  void take(Known known);
  void filter(const QString& text);
  void copy_all();

  ColumnTableModel* model_;
  QLabel* summary_;
  QLineEdit* filter_;
  TablePane* pane_;
  Known known_;
  std::stop_source diagnosing_;
};

}  // namespace shardscope::gui
