// A ColumnTable as Qt's item views want it, sorted and filtered beside the UI thread.
#pragma once

#include <QAbstractTableModel>
#include <QString>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "gui/base/tasks.h"
#include "gui/data/column_table.h"
#include "gui/data/sort_rows.h"

namespace shardscope::gui {

/// Rows of the view are "places", rows of the table "rows". Up to `most_at_once` rows are arranged
/// at once, more on a worker: the view then keeps its order until the new one is there.
class ColumnTableModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  static constexpr std::size_t most_at_once = 20'000;

  explicit ColumnTableModel(Tasks& tasks, QObject* parent = nullptr);

  /// Sorting, filter and marks stay as they are, the columns being found by their ids.
  void show(ColumnTablePointer table);
  const ColumnTable& table() const { return *table_; }
  const ColumnTablePointer& table_pointer() const { return table_; }

  void sort_by(const std::string& column_id, SortOrder order);
  /// Of differences "descending" is by magnitude.
  void sort(int column, Qt::SortOrder order) override;
  const std::string& sorted_by() const { return sorted_by_; }
  SortOrder order() const { return order_; }
  /// As in gui/data/row_filter.h.
  void filter(const QString& text);

  /// Stays on top in every order; none: nothing does. Others show their difference to it.
  void pin(std::optional<std::uint32_t> row);
  std::optional<std::uint32_t> pinned() const { return pinned_; }
  /// Words shown beside the first column's text, by row: "", "A".
  void mark(const std::vector<QString>& marks);
  QString mark_of(int place) const;

  std::uint32_t row_at(int place) const { return rows_[static_cast<std::size_t>(place)]; }
  std::optional<int> place_of(std::uint32_t row) const;  ///< none: filtered out
  /// Relative to the pinned row's value: "+3.1%"; "" of that row, of texts and of differences.
  QString change_text(const QModelIndex& index) const;

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 Q_SIGNALS:
  void arranged();  ///< rows have new places

 private:
  /// The shown rows in their order, and each row's place; `absent` where it is not shown.
  struct Arrangement {
    std::vector<std::uint32_t> rows, places;
  };
  static constexpr std::uint32_t absent = UINT32_MAX;
  static Arrangement arrangement_of(const ColumnTable& table, const std::string& sorted_by,
                                    SortOrder order, const std::string& filter,
                                    std::optional<std::uint32_t> pinned,
                                    const std::stop_token& stop);
  void arrange();
  void take(Arrangement arrangement);
  QString text_of(std::size_t column, std::uint32_t row) const;
  QString tip_of(std::size_t column, std::uint32_t row) const;

  Tasks& tasks_;
  ColumnTablePointer table_ = std::make_shared<const ColumnTable>();
  std::string sorted_by_, filter_;
  SortOrder order_ = SortOrder::ascending;
  std::optional<std::uint32_t> pinned_;
  std::vector<QString> marks_;  ///< by row, or none
  std::vector<std::uint32_t> rows_, places_;
  std::stop_source arranging_;
};

}  // namespace shardscope::gui
