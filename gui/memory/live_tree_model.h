// What is alive at an instant, from category down to unit and tensor.
#pragma once

#include <QAbstractItemModel>
#include <memory>

#include "gui/data/live_tree.h"

namespace shardscope::gui {

class LiveTreeModel : public QAbstractItemModel {
  Q_OBJECT
 public:
  enum Column {
    name_column,
    bytes_column,
    share_column,
    count_column,
    allocated_column,
    freed_column,
    column_count
  };

  using QAbstractItemModel::QAbstractItemModel;

  void show(std::shared_ptr<const LiveSet> set, LiveTree tree);
  const LiveSet& set() const { return *set_; }
  /// Null: the index is of no tensor.
  const LiveBuffer* buffer(const QModelIndex& index) const;

  QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
  QModelIndex parent(const QModelIndex& index) const override;
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  const LiveTree::Node& node(const QModelIndex& index) const;
  QString text(const LiveTree::Node& node, int column) const;

  std::shared_ptr<const LiveSet> set_ = std::make_shared<const LiveSet>();
  LiveTree tree_;
};

}  // namespace shardscope::gui
