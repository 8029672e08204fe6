#include "gui/what_if/what_if_view.h"

#include <QClipboard>
#include <QFileDialog>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>
#include <utility>

#include "core/base/error.h"
#include "core/format/atomic_file.h"
#include "gui/base/theme.h"
#include "gui/data/verdict.h"
#include "gui/table/names_column.h"
#include "gui/what_if/figure_rows_model.h"
#include "gui/what_if/run_pane.h"
#include "gui/what_if/tornado_chart.h"
#include "gui/what_if/what_if_controls.h"
#include "sim/planner/written_choice.h"

namespace shardscope::gui {
namespace {

QLabel* line(const QString& name, QWidget* parent) {
  auto* label = new QLabel(parent);
  label->setObjectName(name);
  label->setWordWrap(true);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  return label;
}

QTableView* figures_table(QAbstractItemModel* model, QWidget* parent) {
  auto* table = new QTableView(parent);
  table->setModel(model);
  table->setAccessibleName(WhatIfView::tr("Before and after"));
  table->verticalHeader()->hide();
  table->verticalHeader()->setDefaultSectionSize(table->fontMetrics().height() + 4);
  table->setColumnHidden(model->columnCount() - 1, true);
  table->horizontalHeader()->setDefaultSectionSize(
      table->fontMetrics().horizontalAdvance(QStringLiteral("141,793,056 B (+100.0%)  ")));
  widen_names(*table, 160);
  table->setSelectionBehavior(QAbstractItemView::SelectRows);
  table->setShowGrid(false);
  table->setAlternatingRowColors(true);
  table->setTabKeyNavigation(false);
  return table;
}

/// Of a save dialog: the file's own kind first.
QString filter_of(const QString& file) {
  const bool is_json = file.endsWith(QStringLiteral(".json"));
  return is_json ? WhatIfView::tr("JSON (*.json);;All files (*)")
                 : WhatIfView::tr("YAML (*.yaml *.yml);;All files (*)");
}

planner::WrittenFrom written_from(const WhatIfInputs& inputs, const Job& job,
                                  const HardwareProfile& machine, int world) {
  const int node = machine.ranks_per_node > 0 ? machine.ranks_per_node : world;
  return {.job = job, .model = inputs.model, .ranks_per_node = node};
}

/// The run's job with the settings that the choice does not have.
Job job_of(const WhatIfInputs& inputs, const WhatIfSettings& settings) {
  Job job = inputs.job;
  job.seq = settings.length;
  job.output.clear();
  return job;
}

planner::WrittenChoice file_of(const WhatIf& what_if, const WhatIfSettings& settings) {
  const WhatIfInputs& inputs = what_if.inputs();
  const Job job = job_of(inputs, settings);
  return planner::written(settings.choice, written_from(inputs, job, what_if.machine(settings),
                                                        planner::world_of(settings.choice)));
}

std::optional<Duration> predicted_step(const ScenarioPointer& scenario) {
  const Side* side = scenario ? scenario->side(SideKind::predicted) : nullptr;
  if (side == nullptr || !side->summary || side->summary->step_time <= Duration{})
    return std::nullopt;
  return side->summary->step_time;
}

bool has_same_traces(const Scenario& a, const Scenario& b, SideKind kind) {
  const Side *of_a = a.side(kind), *of_b = b.side(kind);
  if (of_a == nullptr || of_b == nullptr) return of_a == of_b;
  return of_a->ranks == of_b->ranks;
}

/// The same reading of the same run, which may have got another label beside others.
bool is_same_reading(const ScenarioPointer& a, const ScenarioPointer& b) {
  if (a == b) return true;
  return a && b && !a->path.empty() && a->path == b->path &&
         has_same_traces(*a, *b, SideKind::predicted) &&
         has_same_traces(*a, *b, SideKind::profiled);
}

}  // namespace

WhatIfView::WhatIfView(Workspace& workspace, QWidget* parent)
    : View(QStringLiteral("what_if"), tr("What-if"), workspace, parent),
      controls_(new WhatIfControls(this)),
      model_(new FigureRowsModel(this)),
      tornado_(new TornadoChart(this)),
      sentence_(line(QStringLiteral("sentence"), this)),
      refusal_(line(QStringLiteral("refusal"), this)),
      notes_(line(QStringLiteral("notes"), this)),
      command_(new QLineEdit(this)),
      run_pane_(new RunPane(workspace, this)) {
  make_layout();
  connect(controls_, &WhatIfControls::changed, this, &WhatIfView::ask);
  connect(&workspace, &Workspace::pair_changed, this, &WhatIfView::read_inputs);
  read_inputs();
}

WhatIfView::~WhatIfView() {
  for (std::stop_source* source : {&reading_, &asking_, &resting_}) source->request_stop();
}

QAbstractItemModel* WhatIfView::table() { return model_; }
QString WhatIfView::refusal() const { return refusal_->text(); }
QString WhatIfView::sentence() const { return sentence_->text(); }
QString WhatIfView::command_text() const { return command_->text(); }
QString WhatIfView::why_not_close() const { return run_pane_->why_not_close(); }

void WhatIfView::make_layout() {
  auto* parts = new QSplitter(Qt::Horizontal, this);
  parts->addWidget(controls_);
  parts->addWidget(make_answers());
  parts->setStretchFactor(1, 1);
  parts->setChildrenCollapsible(false);
  auto* page = new QHBoxLayout(this);
  page->setContentsMargins(4, 4, 4, 4);
  page->addWidget(parts);
  setFocusProxy(controls_);
}

QWidget* WhatIfView::make_answers() {
  auto* right = new QWidget(this);
  auto* column = new QVBoxLayout(right);
  column->setContentsMargins(8, 4, 4, 4);
  QFont large = sentence_->font();
  large.setPointSizeF(large.pointSizeF() * 1.15);
  sentence_->setFont(large);
  refusal_->hide();
  column->addWidget(sentence_);
  column->addWidget(refusal_);
  column->addWidget(figures_table(model_, right), 1);
  column->addWidget(tornado_);
  column->addWidget(notes_);
  auto* line = new QHBoxLayout;
  command_->setReadOnly(true);
  command_->setAccessibleName(tr("The same question on the command line"));
  auto* copy = new QPushButton(tr("Copy"), right);
  connect(copy, &QPushButton::clicked, this,
          [this] { QGuiApplication::clipboard()->setText(command_->text()); });
  line->addWidget(command_, 1);
  line->addWidget(copy);
  column->addLayout(line);
  column->addLayout(make_buttons());
  column->addWidget(run_pane_);
  return right;
}

QBoxLayout* WhatIfView::make_buttons() {
  auto* row = new QHBoxLayout;
  const auto button = [&](const QString& text, auto&& action) {
    auto* made = new QPushButton(text, this);
    made->setAutoDefault(false);
    connect(made, &QPushButton::clicked, this, action);
    row->addWidget(made);
    return made;
  };
  pin_ = button(tr("Pin as scenario"), [this] { pin(); });
  write_ = button(tr("Write..."), [this] { choose_file_and_write(); });
  reset_ = button(tr("Reset"), [this] { reset(); });
  row->addStretch(1);
  run_ = button(tr("Start real run..."), [this] { start_run(); });
  return row;
}

std::vector<Command> WhatIfView::commands() {
  const auto has_answer = [this] { return answer_ && answer_->scenario; };
  const auto has_ground = [this] { return what_if_ != nullptr; };
  const QString group = title();
  return {{.group = group,
           .text = tr("Pin as scenario"),
           .keys = {Qt::Key_P},
           .run = [this] { pin(); },
           .is_enabled = has_answer},
          {.group = group,
           .text = tr("Back to the run's own settings"),
           .keys = {QKeySequence(Qt::CTRL | Qt::Key_Backspace)},
           .run = [this] { reset(); },
           .is_enabled = has_ground},
          {.group = group,
           .text = tr("Write as configuration..."),
           .run = [this] { choose_file_and_write(); },
           .is_enabled = has_answer},
          {.group = group,
           .text = tr("Write the changed machine..."),
           .run =
               [this] {
                 const QString path = QFileDialog::getSaveFileName(
                     this, tr("Write the changed machine"), QStringLiteral("hardware.json"),
                     tr("Hardware profile (*.json);;All files (*)"));
                 if (!path.isEmpty()) write_machine(path);
               },
           .is_enabled = has_ground},
          {.group = group,
           .text = tr("Start real run..."),
           .run = [this] { start_run(); },
           .is_enabled = has_ground}};
}

void WhatIfView::read_inputs() {
  const ScenarioPointer a = workspace().a();
  // A scenario that was pinned here is shown with the inputs that it was made from.
  if (a && a->path.empty() && what_if_) return;
  if (a && is_same_reading(a, grounded_on_)) {
    grounded_on_ = a;
    return;
  }
  grounded_on_ = a;
  reading_.request_stop();
  asking_.request_stop();
  resting_.request_stop();
  is_asking_ = false;
  take({});
  if (!a) return tell(tr("Open a run: What-if starts from its settings and its machine."));
  reading_ = workspace().tasks().run(
      this,
      [a](const std::stop_token& stop) {
        LoadedInputs inputs;
        try {
          inputs.what_if = std::make_shared<WhatIf>(what_if_inputs(*a));
          inputs.before = inputs.what_if->answer(inputs.what_if->inputs().start, true, stop);
          inputs.refusal = inputs.before.refusal;
        } catch (const Error& error) {
          inputs.refusal = error.what();
        }
        return inputs;
      },
      [this](const LoadedInputs& inputs) { take(inputs); },
      [this](const QString& failure) { take({.refusal = failure.toStdString()}); });
}

void WhatIfView::take(const LoadedInputs& inputs) {
  what_if_ = inputs.what_if;
  before_.reset();
  answer_.reset();
  if (inputs.before.scenario) before_ = inputs.before;
  controls_->setEnabled(what_if_ != nullptr);
  for (QPushButton* button : {pin_, write_, reset_, run_}) button->setEnabled(what_if_ != nullptr);
  tornado_->show({});
  workspace().set_ghost(nullptr);
  if (what_if_) {
    controls_->set_settings(start());
    show(inputs.before);
    rest();
  } else {
    show_figures();
  }
  tell(QString::fromStdString(inputs.refusal));
}

WhatIfSettings WhatIfView::start() const { return what_if_->inputs().start; }

void WhatIfView::ask() {
  if (!what_if_) return;
  resting_.request_stop();
  tornado_->show({});
  if (!is_asking_) begin_asking();
}

void WhatIfView::begin_asking() {
  is_asking_ = true;
  asking_ = workspace().tasks().run(
      this,
      [what_if = what_if_, settings = controls_->settings()](const std::stop_token& stop) {
        return what_if->answer(settings, false, stop);
      },
      [this](WhatIfAnswer answer) {
        is_asking_ = false;
        const bool is_newest = answer.settings == controls_->settings();
        show(std::move(answer));
        if (is_newest)
          rest();
        else
          begin_asking();
      },
      [this](const QString& failure) {
        is_asking_ = false;
        tell(failure);
      });
}

void WhatIfView::show(WhatIfAnswer answer) {
  answer_ = std::move(answer);
  const bool is_start = answer_->settings == start();
  workspace().set_ghost(is_start ? nullptr : answer_->scenario);
  tell(QString::fromStdString(answer_->refusal));
  show_figures();
  show_command();
}

void WhatIfView::show_figures() {
  const bool has_both = before_ && answer_ && answer_->scenario;
  model_->show(has_both ? figures_beside(before_->scenario, answer_->scenario)
                        : std::vector<FigureRow>());
  pin_->setEnabled(has_both);
  write_->setEnabled(has_both);
  if (!has_both) return sentence_->clear();
  if (answer_->settings == start())
    return sentence_->setText(tr("The run as it is: %1. Change a setting.")
                                  .arg(QString::fromStdString(label_of(answer_->settings))));
  const Verdict verdict =
      compared(strategy_row(before_->scenario), strategy_row(answer_->scenario));
  sentence_->setText(QString::fromStdString(verdict.sentence));
  sentence_->setToolTip(QString::fromStdString(label_of(answer_->settings)));
}

void WhatIfView::show_command() {
  const WhatIfInputs& inputs = what_if_->inputs();
  QStringList notes;
  for (const std::string& note : inputs.notes) notes << QString::fromStdString(note);
  for (const std::string& note : answer_->notes) notes << QString::fromStdString(note);
  command_->clear();
  run_->setEnabled(answer_->settings.choice.runtime == Runtime::native);
  run_->setToolTip(run_->isEnabled()
                       ? tr("Trains with these settings on this host")
                       : tr("Shardscope trains by its native runtime: write the configuration, and "
                            "start the real library with it"));
  try {
    controls_->show_machine(what_if_->machine(answer_->settings));
    const bool turned = answer_->settings.scales != MachineScales{};
    const SimulateCommand command = simulate_command(
        answer_->settings, {.job = inputs.folder / "job.json",
                            .hardware = turned ? std::filesystem::path("hardware.json")
                                               : inputs.folder / "hardware.json",
                            .run_job = inputs.job,
                            .model = inputs.model,
                            .own = inputs.own ? &inputs.start : nullptr,
                            .is_of_file = inputs.own && inputs.own->is_of_file});
    command_->setText(QString::fromStdString(command.text()));
    command_->setCursorPosition(0);
    for (const std::string& what : command.unsaid)
      notes << tr("no option says: %1").arg(QString::fromStdString(what));
    if (turned) notes << tr("hardware.json is written by \"Write the changed machine...\"");
  } catch (const Error& error) {
    notes << QString::fromUtf8(error.what());
  }
  notes_->setText(notes.join(QStringLiteral("\n")));
  notes_->setVisible(!notes.isEmpty());
}

void WhatIfView::rest() {
  if (!answer_ || !answer_->scenario) return;
  resting_.request_stop();
  resting_ = workspace().tasks().run(
      this,
      [what_if = what_if_, settings = answer_->settings](const std::stop_token& stop) {
        return Rest{what_if->answer(settings, true, stop), what_if->sensitivity(settings, stop)};
      },
      [this](Rest rest) {
        if (!answer_ || rest.answer.settings != answer_->settings) return;
        show(std::move(rest.answer));
        tornado_->show(std::move(rest.sensitivity));
      });
}

void WhatIfView::tell(const QString& refusal) {
  QPalette palette = refusal_->palette();
  palette.setColor(QPalette::WindowText, theme_of(*this).exposed);
  refusal_->setPalette(palette);
  refusal_->setText(refusal);
  refusal_->setVisible(!refusal.isEmpty());
}

void WhatIfView::pin() {
  if (answer_ && answer_->scenario) workspace().add(answer_->scenario);
}

void WhatIfView::reset() {
  if (!what_if_) return;
  controls_->set_settings(start());
  ask();
}

void WhatIfView::choose_file_and_write() {
  if (!answer_ || !answer_->scenario) return;
  try {
    const planner::WrittenChoice file = file_of(*what_if_, answer_->settings);
    const QString path = QFileDialog::getSaveFileName(
        this, tr("Write as %1").arg(QString::fromStdString(file.format)),
        QString::fromStdString(file.file), filter_of(QString::fromStdString(file.file)));
    if (!path.isEmpty()) write(path);
  } catch (const Error& error) {
    tell(QString::fromUtf8(error.what()));
  }
}

void WhatIfView::write(const QString& path) {
  if (!answer_ || !answer_->scenario) return;
  try {
    const planner::WrittenChoice file = file_of(*what_if_, answer_->settings);
    QStringList lines{tr("Written: %1 (%2)").arg(path, QString::fromStdString(file.format))};
    for (const Loss& loss : file.losses)
      lines << tr("not in it: %1: %2")
                   .arg(QString::fromStdString(loss.key), QString::fromStdString(loss.why));
    write_file(path, file.text, lines.join(QStringLiteral("\n")));
  } catch (const Error& error) {
    tell(QString::fromUtf8(error.what()));
  }
}

void WhatIfView::write_machine(const QString& path) {
  if (!what_if_) return;
  write_file(path, to_json(what_if_->machine(controls_->settings())) + "\n",
             tr("Written: %1").arg(path));
}

void WhatIfView::write_file(const QString& path, const std::string& text, const QString& note) {
  workspace().tasks().run(
      this,
      [path = path.toStdString(), text](const std::stop_token&) {
        try {
          write_atomically(path, text);
        } catch (const Error& error) {
          return std::string(error.what());
        }
        return std::string();
      },
      [this, note](const std::string& failure) {
        tell(QString::fromStdString(failure));
        if (!failure.empty()) return;
        notes_->setText(note);
        notes_->show();
      });
}

void WhatIfView::start_run() {
  if (!answer_ || answer_->settings.choice.runtime != Runtime::native) return;
  try {
    const WhatIfInputs& inputs = what_if_->inputs();
    run_pane_->ask_and_start({.job_text = file_of(*what_if_, answer_->settings).text,
                              .ranks = planner::world_of(answer_->settings.choice),
                              .steps = inputs.job.steps,
                              .machine = inputs.machine.device == "cpu"
                                             ? inputs.folder / "hardware.json"
                                             : std::filesystem::path(),
                              .folder = inputs.folder.parent_path() / "what_if",
                              .predicted = predicted_step(answer_->scenario)});
  } catch (const Error& error) {
    tell(QString::fromUtf8(error.what()));
  }
}

}  // namespace shardscope::gui
