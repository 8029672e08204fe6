#include "gui/memory/live_tree_model.h"

#include "gui/base/text.h"
#include "gui/base/view.h"
#include "gui/memory/bytes_text.h"

namespace shardscope::gui {

void LiveTreeModel::show(std::shared_ptr<const LiveSet> set, LiveTree tree) {
  beginResetModel();
  set_ = std::move(set);
  tree_ = std::move(tree);
  endResetModel();
}

const LiveTree::Node& LiveTreeModel::node(const QModelIndex& index) const {
  return tree_.nodes[index.isValid() ? index.internalId() : 0];
}

const LiveBuffer* LiveTreeModel::buffer(const QModelIndex& index) const {
  if (!index.isValid()) return nullptr;
  const std::uint32_t place = node(index).buffer;
  return place == LiveTree::none ? nullptr : &set_->buffers[place];
}

QModelIndex LiveTreeModel::index(int row, int column, const QModelIndex& parent) const {
  if (!hasIndex(row, column, parent)) return {};
  return createIndex(row, column,
                     quintptr{node(parent).first_child + static_cast<std::uint32_t>(row)});
}

QModelIndex LiveTreeModel::parent(const QModelIndex& index) const {
  if (!index.isValid()) return {};
  const std::uint32_t above = node(index).parent;
  if (above == 0 || above == LiveTree::none) return {};
  return createIndex(static_cast<int>(tree_.nodes[above].row), 0, quintptr{above});
}

int LiveTreeModel::rowCount(const QModelIndex& parent) const {
  if (tree_.nodes.empty() || parent.column() > 0) return 0;
  return static_cast<int>(node(parent).child_count);
}

int LiveTreeModel::columnCount(const QModelIndex&) const { return column_count; }

QString LiveTreeModel::text(const LiveTree::Node& node, int column) const {
  const LiveBuffer* buffer = node.buffer == LiveTree::none ? nullptr : &set_->buffers[node.buffer];
  switch (column) {
    case name_column:
      return text_of(node.text);
    case bytes_column:
      return exact_bytes(node.bytes);
    case share_column: {
      const double total = static_cast<double>(set_->total().count);
      if (total == 0) return {};
      return QStringLiteral("%1%").arg(100 * static_cast<double>(node.bytes.count) / total, 0, 'f',
                                       1);
    }
    case count_column:
      return node.child_count == 0 ? QString() : QString::number(node.child_count);
    case allocated_column:
      return buffer == nullptr ? QString() : text_of(buffer->allocated_by);
    case freed_column:
      return buffer == nullptr ? QString() : text_of(buffer->freed_by);
    default:
      return {};
  }
}

QVariant LiveTreeModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  const LiveTree::Node& at = node(index);
  const bool is_number = index.column() >= bytes_column && index.column() <= count_column;
  switch (role) {
    case Qt::DisplayRole:
      return text(at, index.column());
    case Qt::ToolTipRole:
      if (const LiveBuffer* tensor = buffer(index); tensor && tensor->stack != no_stack)
        return text_of(stack_text(*set_, *tensor));
      return text(at, index.column());
    case Qt::TextAlignmentRole:
      return static_cast<int>(Qt::AlignVCenter | (is_number ? Qt::AlignRight : Qt::AlignLeft));
    case View::number_role:
      if (index.column() == bytes_column) return static_cast<qlonglong>(at.bytes.count);
      return {};
    default:
      return {};
  }
}

QVariant LiveTreeModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  switch (section) {
    case name_column:
      return tr("Category, unit, tensor");
    case bytes_column:
      return tr("Size");
    case share_column:
      return tr("Of all");
    case count_column:
      return tr("Parts");
    case allocated_column:
      return tr("Allocated by");
    case freed_column:
      return tr("Freed by");
    default:
      return {};
  }
}

}  // namespace shardscope::gui
