// What is alive at the instant that was clicked.
#pragma once

#include <QWidget>
#include <memory>
#include <stop_token>

#include "gui/base/workspace.h"
#include "gui/data/live_set.h"

class QLabel;
class QLineEdit;
class QTreeView;

namespace shardscope::gui {

class LiveTreeModel;

class LivePanel : public QWidget {
  Q_OBJECT
 public:
  LivePanel(Workspace& workspace, QWidget* parent);

  /// `heading` says of which side and when.
  void show(std::shared_ptr<const LiveSet> set, const QString& heading);
  void clear(const QString& reason);

  LiveTreeModel* model() const { return model_; }
  QTreeView* tree() const { return tree_; }
  QLineEdit* search() const { return search_; }
  /// The selected rows, or the categories, with tabs.
  void copy() const;

 Q_SIGNALS:
  void buffer_chosen(const LiveBuffer& buffer);
  /// The sentence above the tree.
  void told(const QString& sentence);

 private:
  void fill();

  Workspace& workspace_;
  std::shared_ptr<const LiveSet> set_;
  QString heading_;
  QLabel* label_;
  QLineEdit* search_;
  LiveTreeModel* model_;
  QTreeView* tree_;
  std::stop_source filling_;
};

}  // namespace shardscope::gui
