#include "gui/window/pair_bar.h"

#include <QComboBox>
#include <QLabel>
#include <QSignalBlocker>
#include <QStyleOptionComboBox>
#include <QStylePainter>
#include <algorithm>

#include "gui/base/choice_box.h"
#include "gui/data/opened_text.h"

namespace shardscope::gui {
namespace {

constexpr int letters_shown = 28;

/// Among the entries of a box, the first of which is none.
int place_of(const Workspace& workspace, const ScenarioPointer& scenario) {
  const auto& all = workspace.scenarios();
  const auto place = std::find(all.begin(), all.end(), scenario);
  return place == all.end() ? 0 : static_cast<int>(place - all.begin()) + 1;
}

ScenarioPointer scenario_at(const Workspace& workspace, int place) {
  return place <= 0 ? nullptr : workspace.scenarios()[static_cast<std::size_t>(place - 1)];
}

/// Where it is from, and why its figures do not stand for the whole run, if they do not.
QString tip_of(const Scenario& scenario) {
  QStringList lines{QString::fromStdString(scenario.path.string())};
  for (const std::string& line : incomplete(scenario)) lines += QString::fromStdString(line);
  return lines.join(u'\n');
}

/// A chooser that keeps both ends of a long name: runs of one folder differ at the end.
class NameBox : public ChoiceBox {
 public:
  using ChoiceBox::ChoiceBox;

 protected:
  void paintEvent(QPaintEvent*) override {
    QStylePainter painter(this);
    QStyleOptionComboBox option;
    initStyleOption(&option);
    painter.drawComplexControl(QStyle::CC_ComboBox, option);
    const QRect room =
        style()->subControlRect(QStyle::CC_ComboBox, &option, QStyle::SC_ComboBoxEditField, this);
    const int icon = option.currentIcon.isNull() ? 0 : option.iconSize.width() + 4;
    option.currentText =
        option.fontMetrics.elidedText(option.currentText, Qt::ElideMiddle, room.width() - 4 - icon);
    painter.drawControl(QStyle::CE_ComboBoxLabel, option);
  }
};

}  // namespace

PairBar::PairBar(Workspace& workspace, QWidget* parent)
    : QToolBar(tr("A and B"), parent), workspace_(workspace) {
  setObjectName(QStringLiteral("pair_bar"));
  setMovable(false);
  a_ = add_chooser(tr("A"), tr("Scenario that is shown (A)"));
  b_ = add_chooser(tr("B"), tr("Scenario that it is compared with (B)"));
  connect(a_, &QComboBox::activated, this,
          [this](int place) { workspace_.set_a(scenario_at(workspace_, place + 1)); });
  connect(b_, &QComboBox::activated, this,
          [this](int place) { workspace_.set_b(scenario_at(workspace_, place)); });
  connect(&workspace, &Workspace::scenarios_changed, this, &PairBar::fill);
  connect(&workspace, &Workspace::pair_changed, this, &PairBar::fill);
  fill();
}

QComboBox* PairBar::add_chooser(const QString& letter, const QString& name) {
  auto* text = new QLabel(letter, this);
  text->setMargin(4);
  auto* box = new NameBox(this);
  box->setAccessibleName(name);
  box->setMinimumContentsLength(letters_shown);
  box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  text->setBuddy(box);
  addWidget(text);
  addWidget(box);
  return box;
}

void PairBar::fill() {
  const QSignalBlocker quiet_a(a_), quiet_b(b_);
  a_->clear();
  b_->clear();
  b_->addItem(tr("none"));
  for (const ScenarioPointer& scenario : workspace_.scenarios()) {
    const QString label = QString::fromStdString(scenario->label);
    for (QComboBox* box : {a_, b_}) {
      box->addItem(label);
      box->setItemData(box->count() - 1, tip_of(*scenario), Qt::ToolTipRole);
      if (!incomplete(*scenario).empty())
        box->setItemIcon(box->count() - 1, style()->standardIcon(QStyle::SP_MessageBoxWarning));
    }
  }
  a_->setCurrentIndex(place_of(workspace_, workspace_.a()) - 1);
  b_->setCurrentIndex(place_of(workspace_, workspace_.b()));
  for (QComboBox* box : {a_, b_})
    box->setToolTip(box->itemData(box->currentIndex(), Qt::ToolTipRole).toString());
}

}  // namespace shardscope::gui
