#include "gui/base/pair_picker.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QSignalBlocker>
#include <algorithm>
#include <initializer_list>

#include "gui/base/choice_box.h"

namespace shardscope::gui {

PairPicker::PairPicker(const QString& view, Workspace& workspace, QWidget* parent)
    : QWidget(parent),
      workspace_(workspace),
      of_(new QLabel(tr("Of"), this)),
      scenario_(new ChoiceBox(this)),
      on_(new QLabel(tr("Rank"), this)),
      rank_(new ChoiceBox(this)) {
  scenario_->setObjectName(view + QStringLiteral("_scenario"));
  scenario_->setToolTip(tr("Scenario whose figures are shown, or both beside one another"));
  rank_->setObjectName(view + QStringLiteral("_rank"));
  rank_->setToolTip(tr("Rank whose figures are shown"));
  of_->setBuddy(scenario_);
  on_->setBuddy(rank_);
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  for (QWidget* part : std::initializer_list<QWidget*>{of_, scenario_, on_, rank_})
    layout->addWidget(part);
  connect(scenario_, &QComboBox::activated, this, [this] {
    fill();  // the other scenario may have other ranks
    Q_EMIT changed();
  });
  connect(rank_, &QComboBox::activated, this, &PairPicker::changed);
  connect(&workspace, &Workspace::pair_changed, this, [this] {
    fill();
    Q_EMIT changed();
  });
  fill();
}

void PairPicker::fill() {
  const QSignalBlocker quiet_scenario(scenario_), quiet_rank(rank_);
  const int was_scenario = std::max(0, scenario_->currentIndex());
  const int was_rank = std::max(0, rank_->currentIndex());
  scenario_->clear();
  if (const auto& a = workspace_.a())
    scenario_->addItem(tr("A: ") + QString::fromStdString(a->label));
  if (const auto& b = workspace_.b())
    scenario_->addItem(tr("B: ") + QString::fromStdString(b->label));
  if (workspace_.b()) scenario_->addItem(tr("A against B"));
  scenario_->setCurrentIndex(std::min(was_scenario, scenario_->count() - 1));
  for (QWidget* part : std::initializer_list<QWidget*>{of_, scenario_})
    part->setVisible(scenario_->count() > 1);
  rank_->clear();
  const ScenarioPointer scenario = shown();
  const Side* profiled = scenario ? scenario->side(SideKind::profiled) : nullptr;
  if (profiled != nullptr)
    for (const auto& trace : profiled->ranks) rank_->addItem(tr("rank %1").arg(trace->rank));
  rank_->setCurrentIndex(std::min(was_rank, rank_->count() - 1));
  for (QWidget* part : std::initializer_list<QWidget*>{on_, rank_})
    part->setVisible(rank_->count() > 1);
}

PairPicker::Choice PairPicker::choice() const {
  return static_cast<Choice>(std::clamp<int>(scenario_->currentIndex(), a_alone, a_against_b));
}

ScenarioPointer PairPicker::shown() const {
  return choice() == b_alone ? workspace_.b() : workspace_.a();
}

ScenarioPointer PairPicker::other() const {
  return choice() == a_against_b ? workspace_.b() : nullptr;
}

void PairPicker::choose_pair() {
  if (!workspace_.b()) return;
  scenario_->setCurrentIndex(a_against_b);
  fill();
  Q_EMIT changed();
}

std::size_t PairPicker::rank() const {
  return static_cast<std::size_t>(std::max(0, rank_->currentIndex()));
}

}  // namespace shardscope::gui
