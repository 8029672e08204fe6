#include "gui/what_if/run_pane.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QPlainTextEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QVBoxLayout>
#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "gui/data/open_run.h"
#include "gui/what_if/run_chart.h"
#include "gui/what_if/run_dialog.h"

namespace shardscope::gui {
namespace {

constexpr int most_log_lines = 2'000;
constexpr int lines_of_log = 5;

}  // namespace

RunPane::RunPane(Workspace& workspace, QWidget* parent)
    : QWidget(parent),
      workspace_(workspace),
      chart_(new RunChart(this)),
      status_(new QLabel(this)),
      progress_(new QProgressBar(this)),
      stop_(new QPushButton(tr("Stop"), this)),
      log_(new QPlainTextEdit(this)) {
  make_layout();
  connect(stop_, &QPushButton::clicked, this, &RunPane::stop);
  connect(&process_, &RunProcess::progressed, this, &RunPane::show_progress);
  connect(&process_, &RunProcess::said, log_, [this](const QString& text) {
    log_->moveCursor(QTextCursor::End);
    log_->insertPlainText(text);
    log_->moveCursor(QTextCursor::End);
  });
  connect(&process_, &RunProcess::ended, this, &RunPane::take_end);
  hide();
}

void RunPane::make_layout() {
  setAccessibleName(tr("Real run"));
  status_->setWordWrap(true);
  status_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  stop_->setToolTip(
      tr("As Ctrl+C: the step under way is finished, results are left whole; a "
         "second time kills it"));
  stop_->setAutoDefault(false);
  progress_->setAccessibleName(tr("Steps done"));
  progress_->setFormat(tr("step %v of %m"));
  log_->setReadOnly(true);
  log_->setMaximumBlockCount(most_log_lines);
  log_->setAccessibleName(tr("Log of the run"));
  log_->setLineWrapMode(QPlainTextEdit::NoWrap);
  log_->setFixedHeight(fontMetrics().height() * (lines_of_log + 1));
  auto* top = new QHBoxLayout;
  top->addWidget(status_, 1);
  top->addWidget(progress_);
  top->addWidget(stop_);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 4, 0, 0);
  column->addLayout(top);
  column->addWidget(chart_);
  column->addWidget(log_);
}

void RunPane::ask_and_start(const RunOffer& offer) {
  RunDialog dialog(offer, this);
  if (dialog.exec() == QDialog::Accepted) start(dialog.offer());
}

void RunPane::start(const RunOffer& offer) {
  if (process_.is_running()) return;
  show();
  log_->clear();
  predicted_ = offer.predicted;
  chart_->show({}, predicted_);
  const RunRequest request{.job = offer.folder / "what_if.json",
                           .ranks = offer.ranks,
                           .steps = offer.steps,
                           .folder = offer.folder,
                           .machine = offer.machine};
  const QString program = shardscope_program();
  if (program.isEmpty())
    return take_end(tr("the program shardscope was found neither beside this one nor in PATH"),
                    false);
  try {
    create_folder(offer.folder);
    write_atomically(request.job, offer.job_text);
  } catch (const Error& error) {
    return take_end(QString::fromUtf8(error.what()), false);
  }
  progress_->setRange(0, static_cast<int>(std::min<std::int64_t>(offer.steps, 1 << 30)));
  progress_->setValue(0);
  stop_->setEnabled(true);
  status_->setText(tr("Training %1 ranks in %2")
                       .arg(offer.ranks)
                       .arg(QString::fromStdString(offer.folder.string())));
  process_.start(program, request);
}

void RunPane::stop() {
  if (!process_.is_running()) return;
  status_->setText(tr("Stopping after the step under way; Stop again kills the run"));
  process_.stop();
}

void RunPane::show_progress() {
  const std::vector<RunPoint>& points = process_.points();
  progress_->setValue(static_cast<int>(points.back().step));
  chart_->show(points, predicted_);
}

void RunPane::take_end(const QString& text, bool has_results) {
  stop_->setEnabled(false);
  status_->setText(tr("Real run: %1").arg(text));
  if (!has_results) {
    Q_EMIT ended();
    return;
  }
  workspace_.tasks().run(
      this,
      [folder = process_.request().folder](const std::stop_token& stop) {
        auto run = std::make_shared<Scenario>(*open_run(folder, {.stop = stop}));
        run->label += ", real run";
        return ScenarioPointer(std::move(run));
      },
      [this](const ScenarioPointer& scenario) {
        workspace_.add(scenario);
        Q_EMIT ended();
      });
}

QString RunPane::status() const { return status_->text(); }
QString RunPane::log() const { return log_->toPlainText(); }

QString RunPane::why_not_close() const {
  if (!process_.is_running()) return {};
  return tr("A training run is under way in %1. Closing the window stops it after its step; what "
            "it has done so far is kept.")
      .arg(QString::fromStdString(process_.request().folder.string()));
}

}  // namespace shardscope::gui
