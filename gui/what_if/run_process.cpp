#include "gui/what_if/run_process.h"

#include <QCoreApplication>
#include <QFileInfo>
#include <QStandardPaths>

#include "core/base/error.h"
#include "traces/run_folder.h"

namespace shardscope::gui {
namespace {

constexpr int poll_ms = 200;
constexpr int patience_ms = 15'000;

}  // namespace

QString shardscope_program() {
  const QString named = qEnvironmentVariable("SHARDSCOPE");
  if (!named.isEmpty()) return named;
  const QString beside = QCoreApplication::applicationDirPath() + QStringLiteral("/shardscope");
  if (QFileInfo(beside).isExecutable()) return beside;
  return QStandardPaths::findExecutable(QStringLiteral("shardscope"));
}

RunProcess::RunProcess(QObject* parent) : QObject(parent) {
  process_.setProcessChannelMode(QProcess::MergedChannels);
#ifdef __SANITIZE_THREAD__
  // With a modifier Qt forks. After a vfork the sanitizer no longer sees this thread's locks.
  process_.setChildProcessModifier([] {});
#endif
  poll_.setInterval(poll_ms);
  connect(&poll_, &QTimer::timeout, this, &RunProcess::read_metrics);
  connect(&process_, &QProcess::readyRead, this,
          [this] { Q_EMIT said(QString::fromUtf8(process_.readAll())); });
  connect(&process_, &QProcess::finished, this, &RunProcess::finish);
  connect(&process_, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
    if (error == QProcess::FailedToStart)
      Q_EMIT ended(tr("%1 cannot be started: %2").arg(process_.program(), process_.errorString()),
                   false);
  });
}

RunProcess::~RunProcess() {
  process_.disconnect(this);
  if (!is_running()) return;
  stop();
  if (process_.waitForFinished(patience_ms)) return;
  process_.kill();
  process_.waitForFinished();
}

void RunProcess::start(const QString& program, const RunRequest& request) {
  if (is_running()) return;
  request_ = request;
  points_.clear();
  is_stopping_ = false;
  tail_ = std::make_unique<MetricsTail>(RunFolder{request.folder}.metrics());
  QStringList arguments;
  for (const std::string& argument : train_arguments(request))
    arguments << QString::fromStdString(argument);
  process_.start(program, arguments, QIODevice::ReadOnly);
  poll_.start();
}

void RunProcess::stop() {
  if (process_.processId() <= 0) return;
  if (is_stopping_) return process_.kill();
  is_stopping_ = true;
  // Not SIGINT: whoever was started in the background by a shell ignores it, and so do its
  // children.
  process_.terminate();
}

void RunProcess::read_metrics() {
  const std::vector<RunPoint> more = tail_->read();
  if (more.empty()) return;
  points_.insert(points_.end(), more.begin(), more.end());
  Q_EMIT progressed();
}

void RunProcess::finish(int exit_code, QProcess::ExitStatus status) {
  poll_.stop();
  read_metrics();
  const bool crashed = status == QProcess::CrashExit;
  const bool has_results = !crashed && (exit_code == static_cast<int>(ExitCode::done) ||
                                        exit_code == static_cast<int>(ExitCode::interrupted));
  Q_EMIT ended(crashed ? tr("killed") : QString::fromStdString(ending_text(exit_code)),
               has_results);
}

}  // namespace shardscope::gui
