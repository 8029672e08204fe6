// Snapshots: blocks with their lifetimes, segments and what is free in them, and two snapshots
// against each other.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "gui/base/view.h"
#include "gui/data/snapshot_allocations.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QTabWidget;

namespace shardscope::gui {

class ColumnTableModel;
class SegmentsCanvas;
class SnapshotCanvas;
class StackPane;
class TablePane;

/// CUDA memory snapshots of A and B. The stack of what was clicked, in whichever tab, stands
/// beside.
class SnapshotsView : public View {
  Q_OBJECT
 public:
  enum Tab { blocks_tab, segments_tab, compare_tab };

  explicit SnapshotsView(Workspace& workspace, QWidget* parent = nullptr);

  QAbstractItemModel* table() override;
  std::vector<Command> commands() override;
  void draw_page(QPainter& painter, QSize size) override;

  void show_tab(Tab tab);
  SnapshotCanvas& canvas() const { return *canvas_; }
  SegmentsCanvas& segments() const { return *segments_; }
  StackPane& stack() const { return *stack_; }
  ColumnTableModel& growth() const { return *growth_; }
  QString summary() const;

 private:
  QWidget* make_bar();
  QWidget* make_blocks();
  QWidget* make_segments();
  QWidget* make_compare();
  void fill_places();
  void prepare();
  void show_prepared(std::shared_ptr<const SnapshotAllocations> prepared);
  void compare();
  void show_block(std::size_t block);
  void show_final_block(std::uint32_t block);
  void reveal_block();

  std::vector<SnapshotPlace> places_;
  std::shared_ptr<const SnapshotAllocations> all_ = std::make_shared<const SnapshotAllocations>();
  QComboBox* place_;
  QLabel* summary_;
  QTabWidget* tabs_;
  SnapshotCanvas* canvas_;
  QWidget* legend_;
  ColumnTableModel* blocks_;
  TablePane* blocks_pane_;
  QLineEdit* filter_;
  SegmentsCanvas* segments_;
  QComboBox* before_;
  QComboBox* after_;
  QComboBox* instant_;
  QComboBox* by_;
  QLabel* compared_;
  ColumnTableModel* growth_;
  TablePane* growth_pane_;
  StackPane* stack_;
  std::stop_source preparing_, comparing_;
  bool is_revealing_ = false;
};

}  // namespace shardscope::gui
