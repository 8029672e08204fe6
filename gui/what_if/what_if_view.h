// What-if: turns a run's settings, and shows what would come of it while they move.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "gui/base/view.h"
#include "gui/data/what_if.h"

class QBoxLayout;
class QLabel;
class QLineEdit;
class QPushButton;

namespace shardscope::gui {

class FigureRowsModel;
class RunPane;
class TornadoChart;
class WhatIfControls;

/// Starts from scenario A. The prediction is computed beside the UI thread: at most one at a time,
/// of the newest settings when it begins; it is the workspace's ghost. When the controls rest, the
/// band and what the step time hangs on follow.
class WhatIfView : public View {
  Q_OBJECT
 public:
  explicit WhatIfView(Workspace& workspace, QWidget* parent = nullptr);
  ~WhatIfView() override;

  QAbstractItemModel* table() override;
  std::vector<Command> commands() override;
  QString why_not_close() const override;

  WhatIfControls& controls() const { return *controls_; }
  RunPane& run_pane() const { return *run_pane_; }
  TornadoChart& tornado() const { return *tornado_; }
  /// What stands in place of a prediction: a refusal, or why there is nothing to start from.
  QString refusal() const;
  QString sentence() const;
  QString command_text() const;
  /// The last answer; null: none yet.
  const WhatIfAnswer* answer() const { return answer_ ? &*answer_ : nullptr; }

  void pin();
  void reset();
  /// As accelerate's file, DeepSpeed's, or a job: what the runtime is started with.
  void write(const QString& path);
  void write_machine(const QString& path);
  void start_run();

 private:
  struct LoadedInputs {
    std::shared_ptr<WhatIf> what_if;
    WhatIfAnswer before;
    std::string refusal;
  };
  struct Rest {
    WhatIfAnswer answer;
    std::vector<Sensitivity> sensitivity;
  };

  void make_layout();
  QWidget* make_answers();
  QBoxLayout* make_buttons();
  void read_inputs();
  void take(const LoadedInputs& inputs);
  void ask();
  void begin_asking();
  void show(WhatIfAnswer answer);
  void show_figures();
  void show_command();
  void rest();
  void tell(const QString& refusal);
  void choose_file_and_write();
  void write_file(const QString& path, const std::string& text, const QString& note);
  WhatIfSettings start() const;

  std::shared_ptr<WhatIf> what_if_;
  ScenarioPointer grounded_on_;
  std::optional<WhatIfAnswer> before_, answer_;
  bool is_asking_ = false;
  std::stop_source reading_, asking_, resting_;
  WhatIfControls* controls_;
  FigureRowsModel* model_;
  TornadoChart* tornado_;
  QLabel *sentence_, *refusal_, *notes_;
  QLineEdit* command_;
  QPushButton *pin_ = nullptr, *write_ = nullptr, *reset_ = nullptr, *run_ = nullptr;
  RunPane* run_pane_;
};

}  // namespace shardscope::gui
