// A real run, started from the window and watched: progress, loss, log, Stop.
#pragma once

#include <QWidget>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "gui/base/workspace.h"
#include "gui/what_if/run_process.h"

class QLabel;
class QPlainTextEdit;
class QProgressBar;
class QPushButton;

namespace shardscope::gui {

class RunChart;

/// What a run is started from; ranks, steps and folder are asked for.
struct RunOffer {
  std::string job_text;
  int ranks = 1;
  std::int64_t steps = 10;
  std::filesystem::path machine;
  std::filesystem::path folder;
  std::optional<Duration> predicted;  ///< of a step, drawn beside what it takes
};

/// Hidden until there was a run. When one has ended its folder is opened as a scenario, which is
/// called a real run, so that the others keep their names.
class RunPane : public QWidget {
  Q_OBJECT
 public:
  explicit RunPane(Workspace& workspace, QWidget* parent = nullptr);

  /// Dialog, then `start`.
  void ask_and_start(const RunOffer& offer);
  /// Writes the job into the folder and starts; what goes wrong stands in the status.
  void start(const RunOffer& offer);
  void stop();

  const RunProcess& process() const { return process_; }
  QString status() const;
  QString log() const;
  /// A question for who closes the window; "" where nothing runs.
  QString why_not_close() const;

 Q_SIGNALS:
  void ended();

 private:
  void make_layout();
  void show_progress();
  void take_end(const QString& text, bool has_results);

  Workspace& workspace_;
  RunProcess process_;
  std::optional<Duration> predicted_;
  RunChart* chart_;
  QLabel* status_;
  QProgressBar* progress_;
  QPushButton* stop_;
  QPlainTextEdit* log_;
};

}  // namespace shardscope::gui
