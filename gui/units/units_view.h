// Units and operations: predicted against profiled bytes and times, with the cause of what differs,
// or A against B.
#pragma once

#include <QString>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "gui/base/view.h"
#include "gui/data/unit_rows.h"

class QLabel;
class QLineEdit;
class QStackedWidget;
class QTabBar;
class QTimer;

namespace shardscope::gui {

class ColumnTableModel;
class PairPicker;
class TablePane;

/// Rows are the units, the operations or the memory by unit of A, of B or of both, on one rank; a
/// What-if stands beside them. The current row is the selection that all views share, and what
/// others select is the current row. Return or a double click leads to it in the timeline.
class UnitsView : public View {
  Q_OBJECT
 public:
  enum Tab { units_tab, operations_tab, memory_tab, tab_count };

  explicit UnitsView(Workspace& workspace, QWidget* parent = nullptr);

  QAbstractItemModel* table() override;
  std::vector<Command> commands() override;

  void show_tab(Tab tab);
  /// Rows of A beside those of B; without B nothing changes.
  void show_pair();
  Tab tab() const;
  TablePane& pane(Tab tab) const { return *tables_[tab].pane; }
  QLineEdit& filter_box() const { return *filter_; }
  QString summary() const;

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  struct Table {
    ColumnTableModel* model = nullptr;
    TablePane* pane = nullptr;
    std::shared_ptr<const RowTable> rows = std::make_shared<const RowTable>();
    bool is_sorted = false;  ///< by us, once
    QString sum_of_all;      ///< of the rows that the filter leaves
  };
  /// What one reading gives.
  struct Tables {
    ScenarioPointer scenario, other;  ///< `other`: B of a pair, or null
    std::size_t rank = 0;
    std::shared_ptr<const RowTable> by_tab[tab_count];
  };

  void make_table(Tab tab, const QString& name);
  QWidget* make_bar();
  void read_tables();
  void take(const Tables& tables);
  void sort_at_first(Table& table);
  void select_row(const Table& table, int place);
  void lead_to_timeline(const Table& table, int place);
  void reveal_selection();
  void reveal_in(Table& table);
  static QString sum_text(const QString& head, const Table& table,
                          const std::vector<std::uint32_t>& rows);
  void sum_all(Table& table);  ///< after the filter or the rows have changed
  void show_summary();
  const Table& current() const { return tables_[tab()]; }

  Table tables_[tab_count];
  ScenarioPointer rows_scenario_;  ///< that the rows are of, which may not be the chosen one yet
  ScenarioPointer rows_other_;     ///< B of a pair; null: rows are of one scenario
  std::size_t rows_rank_ = 0;
  QTabBar* tabs_;
  QStackedWidget* stack_;
  PairPicker* picker_;
  QLineEdit* filter_;
  QTimer* typed_;
  QLabel* summary_;
  std::stop_source reading_;
  bool is_revealing_ = false;
  bool is_stale_ = false;  ///< What-if has changed since the tables were read
};

}  // namespace shardscope::gui
