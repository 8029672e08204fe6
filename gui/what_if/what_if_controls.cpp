#include "gui/what_if/what_if_controls.h"

#include <QComboBox>
#include <QFormLayout>
#include <QLabel>
#include <QSignalBlocker>
#include <QSpinBox>
#include <algorithm>
#include <array>

#include "gui/base/choice_box.h"
#include "gui/data/machine_words.h"
#include "gui/what_if/factor_slider.h"
#include "sim/hardware/builtin_profiles.h"
#include "sim/planner/enumerate.h"

namespace shardscope::gui {
namespace {

using planner::Choice;
using S = ShardingStrategy;

constexpr std::array runtimes{Runtime::native, Runtime::fsdp1, Runtime::fsdp2, Runtime::ddp,
                              Runtime::deepspeed};
constexpr std::array shardings{S::no_shard,   S::zero1,        S::shard_grad_op,
                               S::full_shard, S::hybrid_shard, S::hybrid_shard_zero2};
constexpr std::array precisions{TrainingPrecision::fp32, TrainingPrecision::bf16_mixed,
                                TrainingPrecision::bf16, TrainingPrecision::fp16_mixed};
const std::array checkpointings{eager::CheckpointChoice{}, eager::CheckpointChoice{.every = 1},
                                eager::CheckpointChoice{.every = 2},
                                eager::CheckpointChoice{.every = 1, .selective = true}};

constexpr int largest_world = 1 << 20;
constexpr int largest_batch = 1 << 16;
constexpr int largest_length = 1 << 20;
constexpr int largest_unit = 1024;

QString text(std::string_view words) {
  return QString::fromUtf8(words.data(), static_cast<qsizetype>(words.size()));
}

template <class Values>
int place_of(const Values& values, const typename Values::value_type& value) {
  const auto found = std::find(values.begin(), values.end(), value);
  return found == values.end() ? -1 : static_cast<int>(found - values.begin());
}

template <class Values>
void add_names(QComboBox& box, const Values& values) {
  for (const auto value : values) box.addItem(text(name_of(value)));
}

/// What a figure is, in the order of `machine_figures`.
constexpr std::array<const char*, machine_figures.size()> about_figures{
    QT_TRANSLATE_NOOP("WhatIfControls", "Peak of matrix products and attention"),
    QT_TRANSLATE_NOOP("WhatIfControls", "Bandwidth of the device's memory"),
    QT_TRANSLATE_NOOP("WhatIfControls", "What has to fit in"),
    QT_TRANSLATE_NOOP("WhatIfControls", "Bandwidth among the ranks of a node"),
    QT_TRANSLATE_NOOP("WhatIfControls", "Bandwidth among nodes"),
    QT_TRANSLATE_NOOP("WhatIfControls", "Of links and network"),
    QT_TRANSLATE_NOOP("WhatIfControls", "Python, dispatch and launches")};

QString heading_of(std::string_view words) {
  QString heading = text(words);
  heading[0] = heading[0].toUpper();
  return heading;
}

QString figure_of(const HardwareProfile& machine, std::size_t figure) {
  const auto or_none = [](const std::string& words) { return QString::fromStdString(words); };
  switch (figure) {
    case 0:
      return or_none(rounded_text(machine.gpu && machine.gpu->bfloat16 ? *machine.gpu->bfloat16
                                                                       : machine.peak));
    case 1:
      return or_none(rounded_text(machine.memory_bandwidth));
    case 2:
      return or_none(rounded_text(machine.memory));
    case 3:
      return machine.link ? or_none(rounded_text(machine.link->bandwidth)) : QString();
    case 4:
      if (machine.interconnect) return or_none(rounded_text(machine.interconnect->rate));
      return machine.network ? or_none(rounded_text(machine.network->bandwidth)) : QString();
    case 5:
      return machine.link ? or_none(rounded_text(machine.link->latency)) : QString();
    default:
      return or_none(
          rounded_text(machine.host ? machine.host->operation : machine.operation_overhead));
  }
}

void add_heading(QFormLayout& form, const QString& words) {
  auto* label = new QLabel(QStringLiteral("<b>%1</b>").arg(words));
  form.addRow(label);
}

}  // namespace

WhatIfControls::WhatIfControls(QWidget* parent) : QScrollArea(parent) {
  auto* page = new QWidget(this);
  auto* form = new QFormLayout(page);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  form->setVerticalSpacing(4);
  make_strategy(*form);
  make_workload(*form);
  make_machine(*form);
  setWidget(page);
  setWidgetResizable(true);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setMinimumWidth(page->minimumSizeHint().width() + 24);
  setFrameShape(QFrame::NoFrame);
  fill();
}

QComboBox* WhatIfControls::add_choices(QFormLayout& form, const QString& words,
                                       const QString& name) {
  auto* box = new ChoiceBox;
  box->setObjectName(name);
  box->setAccessibleName(words);
  form.addRow(words, box);
  connect(box, &QComboBox::activated, this, [this, box] { read(box); });
  return box;
}

QSpinBox* WhatIfControls::add_number(QFormLayout& form, const QString& words, int largest,
                                     const QString& one, const QString& many) {
  auto* box = new QSpinBox;
  box->setRange(1, largest);
  const auto name = [box, one, many](int value) { box->setSuffix(value == 1 ? one : many); };
  name(box->value());
  connect(box, &QSpinBox::valueChanged, box, name);
  box->setAccessibleName(words);
  box->setStepType(QAbstractSpinBox::DefaultStepType);
  box->setKeyboardTracking(false);
  form.addRow(words, box);
  connect(box, &QSpinBox::valueChanged, this, [this, box] { read(box); });
  return box;
}

void WhatIfControls::make_strategy(QFormLayout& form) {
  add_heading(form, tr("Strategy"));
  runtime_ = add_choices(form, tr("Runtime"), QStringLiteral("runtime"));
  add_names(*runtime_, runtimes);
  sharding_ = add_choices(form, tr("Strategy"), QStringLiteral("strategy"));
  add_names(*sharding_, shardings);
  ranks_ = add_number(form, tr("Ranks"), largest_world, {}, {});
  ranks_->setObjectName(QStringLiteral("ranks"));
  mesh_ = add_choices(form, tr("Mesh"), QStringLiteral("mesh"));
  blocks_ =
      add_number(form, tr("Wrapping"), largest_unit, tr(" block per unit"), tr(" blocks per unit"));
  blocks_->setObjectName(QStringLiteral("blocks"));
  blocks_->setMinimum(0);
  blocks_->setSpecialValueText(tr("the whole model is one unit"));
  prefetch_ = add_choices(form, tr("Prefetch"), QStringLiteral("prefetch"));
  checkpointing_ = add_choices(form, tr("Checkpointing"), QStringLiteral("checkpointing"));
  for (const eager::CheckpointChoice& choice : checkpointings)
    checkpointing_->addItem(QString::fromStdString(planner::text_of(choice)));
  precision_ = add_choices(form, tr("Precision"), QStringLiteral("precision"));
  add_names(*precision_, precisions);
}

void WhatIfControls::make_workload(QFormLayout& form) {
  add_heading(form, tr("Workload"));
  batch_ = add_number(form, tr("Micro-batch"), largest_batch, tr(" sequence"), tr(" sequences"));
  batch_->setObjectName(QStringLiteral("batch"));
  micro_batches_ =
      add_number(form, tr("Micro-batches"), largest_batch, tr(" a step"), tr(" a step"));
  micro_batches_->setObjectName(QStringLiteral("micro_batches"));
  length_ = add_number(form, tr("Sequence"), largest_length, tr(" token"), tr(" tokens"));
  length_->setObjectName(QStringLiteral("length"));
  reductions_ = add_choices(form, tr("Gradients"), QStringLiteral("reductions"));
  reductions_->addItems({tr("reduced once a step"), tr("reduced every micro-batch")});
}

void WhatIfControls::make_machine(QFormLayout& form) {
  add_heading(form, tr("Machine"));
  cluster_ = add_choices(form, tr("Cluster"), QStringLiteral("cluster"));
  cluster_->addItem(tr("the run's own"));
  for (const BuiltinProfile& profile : builtin_profiles()) cluster_->addItem(text(profile.name));
  for (std::size_t i = 0; i < factors_.size(); ++i) {
    const QString words = heading_of(machine_words(machine_figures[i].name));
    factors_[i] = new FactorSlider(words);
    factors_[i]->setObjectName(text(machine_figures[i].name));
    factors_[i]->setToolTip(tr(about_figures[i]));
    form.addRow(words, factors_[i]);
    connect(factors_[i], &FactorSlider::changed, this,
            [this, factor = factors_[i]] { read(factor); });
  }
}

void WhatIfControls::read(const QObject* changed_one) {
  if (is_filling_) return;
  Choice& choice = settings_.choice;
  choice.blocks_per_unit = blocks_->value();
  choice.batch = batch_->value();
  choice.micro_batches = micro_batches_->value();
  choice.reduces_every_micro_batch = reductions_->currentIndex() == 1;
  choice.checkpointing = checkpointings[static_cast<std::size_t>(checkpointing_->currentIndex())];
  choice.precision = precisions[static_cast<std::size_t>(precision_->currentIndex())];
  settings_.length = length_->value();
  settings_.cluster =
      cluster_->currentIndex() <= 0 ? std::string() : cluster_->currentText().toStdString();
  for (std::size_t i = 0; i < factors_.size(); ++i)
    settings_.scales.*machine_figures[i].factor = factors_[i]->factor();
  if (changed_one == runtime_)
    choice = under(choice, runtimes[static_cast<std::size_t>(runtime_->currentIndex())]);
  if (changed_one == sharding_)
    choice = with_sharding(choice, shardings[static_cast<std::size_t>(sharding_->currentIndex())]);
  if (changed_one == ranks_) choice = on_ranks(choice, ranks_->value());
  if (changed_one == mesh_) {
    const auto meshes = planner::meshes_of(choice.sharding, choice.mesh.world());
    choice.mesh = meshes[static_cast<std::size_t>(mesh_->currentIndex())];
  }
  if (changed_one == prefetch_)
    choice.prefetch = planner::prefetches_of(
        choice.runtime, S::full_shard, 1)[static_cast<std::size_t>(prefetch_->currentIndex())];
  fill();
  Q_EMIT changed();
}

void WhatIfControls::fill_meshes() {
  const Choice& choice = settings_.choice;
  const auto meshes = planner::meshes_of(choice.sharding, choice.mesh.world());
  const QString tensor = choice.tensor == 1 ? QString() : tr("tensor %1 x ").arg(choice.tensor);
  mesh_->clear();
  for (const Mesh& mesh : meshes)
    mesh_->addItem(tensor + tr("replicate %1 x shard %2").arg(mesh.replicate).arg(mesh.shard));
  mesh_->setCurrentIndex(place_of(meshes, choice.mesh));
  mesh_->setEnabled(meshes.size() > 1);
}

void WhatIfControls::fill_prefetches() {
  const auto prefetches = planner::prefetches_of(settings_.choice.runtime, S::full_shard, 1);
  prefetch_->clear();
  for (const planner::Prefetch prefetch : prefetches)
    prefetch_->addItem(text(planner::name_of(prefetch)));
  prefetch_->setCurrentIndex(place_of(prefetches, settings_.choice.prefetch));
  prefetch_->setEnabled(prefetches.size() > 1);
}

void WhatIfControls::fill() {
  is_filling_ = true;
  const Choice& choice = settings_.choice;
  runtime_->setCurrentIndex(place_of(runtimes, choice.runtime));
  sharding_->setCurrentIndex(place_of(shardings, choice.sharding));
  ranks_->setValue(planner::world_of(choice));
  ranks_->setSingleStep(choice.tensor);
  fill_meshes();
  fill_prefetches();
  blocks_->setValue(choice.blocks_per_unit);
  blocks_->setEnabled(choice.tensor == 1);  // beside it the model's own fsdp_plan makes the units
  checkpointing_->setCurrentIndex(std::max(0, place_of(checkpointings, choice.checkpointing)));
  precision_->setCurrentIndex(place_of(precisions, choice.precision));
  batch_->setValue(static_cast<int>(std::min<std::int64_t>(choice.batch, largest_batch)));
  micro_batches_->setValue(choice.micro_batches);
  reductions_->setCurrentIndex(choice.reduces_every_micro_batch ? 1 : 0);
  reductions_->setEnabled(choice.micro_batches > 1);
  length_->setValue(static_cast<int>(std::min<std::int64_t>(settings_.length, largest_length)));
  cluster_->setCurrentIndex(
      std::max(0, cluster_->findText(QString::fromStdString(settings_.cluster))));
  for (std::size_t i = 0; i < factors_.size(); ++i)
    factors_[i]->set_factor(settings_.scales.*machine_figures[i].factor);
  is_filling_ = false;
}

void WhatIfControls::set_settings(const WhatIfSettings& settings) {
  settings_ = settings;
  fill();
}

void WhatIfControls::show_machine(const HardwareProfile& machine) {
  for (std::size_t i = 0; i < factors_.size(); ++i) factors_[i]->show_figure(figure_of(machine, i));
}

}  // namespace shardscope::gui
