// Diagnostics: what was loaded, skipped and guessed, and which identities hold.
#pragma once

#include "gui/view.h"

class QTableView;

namespace shardscope::gui {

class FindingsModel;

class DiagnosticsView : public View {
  Q_OBJECT
 public:
  explicit DiagnosticsView(Workspace& workspace, QWidget* parent = nullptr);
  QAbstractItemModel* table() override;

 private:
  FindingsModel* model_;
  QTableView* rows_;
};

}  // namespace shardscope::gui
