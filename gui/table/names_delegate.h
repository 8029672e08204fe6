// Names of modules in a list: what all of them begin with is left away where there is little room.
#pragma once

#include <QString>
#include <QStyledItemDelegate>
#include <functional>

namespace shardscope::gui {

class NamesDelegate : public QStyledItemDelegate {
  Q_OBJECT
 public:
  /// `common`: the outer modules that the names share, asked for when one is drawn.
  NamesDelegate(std::function<QString()> common, QObject* parent);

 protected:
  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override;

 private:
  std::function<QString()> common_;
};

}  // namespace shardscope::gui
