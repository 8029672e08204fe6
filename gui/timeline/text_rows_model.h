// Rows that were made ready before: what is read, and the number behind it.
#pragma once

#include <QAbstractTableModel>
#include <QString>
#include <QVariant>
#include <vector>

namespace shardscope::gui {

struct TextCell {
  QString text;
  QVariant number = {};  ///< none: it is text
};

class TextRowsModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  TextRowsModel(std::vector<QString> headings, QObject* parent);

  void show(std::vector<std::vector<TextCell>> rows);
  /// The outer modules that the first column's names share, as `common_modules` has them.
  const QString& common_modules() const { return common_; }

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::vector<QString> headings_;
  std::vector<std::vector<TextCell>> rows_;
  QString common_;
};

}  // namespace shardscope::gui
