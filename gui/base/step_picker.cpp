#include "gui/base/step_picker.h"

#include <QSignalBlocker>
#include <QStringList>
#include <algorithm>
#include <array>

#include "gui/data/trace_times.h"

namespace shardscope::gui {
namespace {

QString label_of(const KnownStep& step) {
  QStringList sides;
  if (step.is_predicted)
    sides << (step.is_steady ? StepPicker::tr("predicted, steady") : StepPicker::tr("predicted"));
  if (step.is_profiled) sides << StepPicker::tr("profiled");
  return StepPicker::tr("step %1 (%2)").arg(step.number).arg(sides.join(QStringLiteral(", ")));
}

}  // namespace

StepPicker::StepPicker(Workspace& workspace, QWidget* parent)
    : QComboBox(parent), workspace_(workspace) {
  setObjectName(QStringLiteral("step_picker"));
  setAccessibleName(tr("Step that is shown"));
  setToolTip(
      tr("The axis begins with this step. A side that did not record it shows the step that "
         "stands for the run."));
  setSizeAdjustPolicy(QComboBox::AdjustToContents);
  connect(&workspace, &Workspace::pair_changed, this, &StepPicker::fill);
  connect(&workspace, &Workspace::axis_changed, this, &StepPicker::mark_chosen);
  connect(this, &QComboBox::activated, this, [this](int index) {
    const QVariant number = itemData(index);
    workspace_.set_step(number.isValid() ? StepChoice(number.toInt()) : std::nullopt);
  });
  fill();
}

void StepPicker::fill() {
  const QSignalBlocker quiet(this);
  clear();
  addItem(tr("typical"));
  const std::array pair{workspace_.a(), workspace_.b()};
  for (const KnownStep& step : known_steps(pair)) addItem(label_of(step), step.number);
  setEnabled(count() > 2);
  mark_chosen();
}

void StepPicker::mark_chosen() {
  const QSignalBlocker quiet(this);
  const StepChoice step = workspace_.step();
  setCurrentIndex(step ? std::max(0, findData(*step)) : 0);
}

}  // namespace shardscope::gui
