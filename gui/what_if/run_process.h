// `shardscope train` as a child process, watched.
#pragma once

#include <QObject>
#include <QProcess>
#include <QString>
#include <QTimer>
#include <memory>
#include <vector>

#include "gui/data/run_monitor.h"

namespace shardscope::gui {

/// The program: $SHARDSCOPE, else beside this one, else in $PATH; "" where there is none.
QString shardscope_program();

class RunProcess : public QObject {
  Q_OBJECT
 public:
  explicit RunProcess(QObject* parent = nullptr);
  /// A run that is under way is interrupted and awaited.
  ~RunProcess() override;

  /// False, with `ended` to follow, where the program cannot be started.
  void start(const QString& program, const RunRequest& request);
  /// As Ctrl+C: the step under way is finished, results are left whole. A second time it is killed.
  void stop();

  bool is_running() const { return process_.state() != QProcess::NotRunning; }
  const RunRequest& request() const { return request_; }
  const std::vector<RunPoint>& points() const { return points_; }

 Q_SIGNALS:
  void progressed();  ///< there are more points
  void said(const QString& text);
  /// `has_results`: the run folder can be opened.
  void ended(const QString& text, bool has_results);

 private:
  void read_metrics();
  void finish(int exit_code, QProcess::ExitStatus status);

  QProcess process_;
  QTimer poll_;
  RunRequest request_;
  std::unique_ptr<MetricsTail> tail_;
  std::vector<RunPoint> points_;
  bool is_stopping_ = false;
};

}  // namespace shardscope::gui
