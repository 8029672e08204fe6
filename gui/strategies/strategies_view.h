// Strategies: every scenario's figures side by side, and what two of them come to.
#pragma once

#include <map>
#include <memory>
#include <stop_token>
#include <vector>

#include "gui/base/view.h"
#include "gui/data/strategy_curves.h"
#include "gui/data/strategy_rows.h"

class QSplitter;

namespace shardscope::gui {

class ColumnTableModel;
class ParetoChart;
class SmallMultiples;
class TablePane;
class VerdictPanel;

/// A What-if is the last row, with a "?". A click on a row makes it A, Ctrl+click B; Return and
/// Shift+Return do the same. Without B, A is compared with the baseline, which has a star.
class StrategiesView : public View {
  Q_OBJECT
 public:
  explicit StrategiesView(Workspace& workspace, QWidget* parent = nullptr);

  QAbstractItemModel* table() override;
  std::vector<Command> commands() override;

  const std::vector<StrategyRow>& rows() const { return rows_; }
  TablePane& pane() const { return *pane_; }
  const VerdictPanel& verdict() const { return *verdict_; }
  ParetoChart& chart() const { return *chart_; }
  SmallMultiples& multiples() const { return *multiples_; }
  /// The row that others are compared with; null: there is none.
  const StrategyRow* baseline() const;
  /// Null: the one that suits best, by `default_baseline`.
  void set_baseline(const ScenarioPointer& scenario);

 private:
  void read_rows();
  void take(std::vector<StrategyRow> rows);
  void show_pair();
  void read_curves();
  void arrange_multiples();  ///< as the table is
  std::vector<QString> marks() const;
  void choose(const ScenarioPointer& scenario, Qt::KeyboardModifiers modifiers);
  const StrategyRow* row_of(const ScenarioPointer& scenario) const;
  ScenarioPointer current_scenario() const;
  std::vector<StrategyRow> opened_rows() const;  ///< without the What-if

  std::vector<StrategyRow> rows_;
  ScenarioPointer chosen_baseline_;
  using CurvesPointer = std::shared_ptr<const std::vector<SideCurve>>;
  /// Curves that were made before, which hold as long as axis and A are the same.
  struct Curves {
    TimeMode mode = TimeMode::step;
    ScenarioPointer a;
    std::map<ScenarioPointer, CurvesPointer> of;
  };
  Curves curves_;
  std::stop_source reading_, drawing_;
  ColumnTableModel* model_;
  VerdictPanel* verdict_;
  TablePane* pane_;
  ParetoChart* chart_;
  SmallMultiples* multiples_;
  QSplitter* parts_ = nullptr;
  bool is_moved_ = false;  ///< the handle between table and charts, by hand
};

}  // namespace shardscope::gui
