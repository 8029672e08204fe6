#include "gui/what_if/run_dialog.h"

#include <QDialogButtonBox>
#include <QFileDialog>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>

namespace shardscope::gui {
namespace {

constexpr int most_steps = 1'000'000'000;

}  // namespace

RunDialog::RunDialog(const RunOffer& offer, QWidget* parent)
    : QDialog(parent), offer_(offer), steps_(new QSpinBox(this)), folder_(new QLineEdit(this)) {
  setWindowTitle(tr("Start real run"));
  auto* form = new QFormLayout(this);
  // The schedule is made for so many: others are another question of What-if.
  form->addRow(tr("Ranks on this host"), new QLabel(QString::number(offer.ranks), this));
  steps_->setRange(1, most_steps);
  steps_->setValue(static_cast<int>(std::min<std::int64_t>(offer.steps, most_steps)));
  form->addRow(tr("Steps"), steps_);
  folder_->setText(QString::fromStdString(offer.folder.string()));
  folder_->setMinimumWidth(fontMetrics().averageCharWidth() * 50);
  auto* choose = new QPushButton(tr("Choose..."), this);
  connect(choose, &QPushButton::clicked, this, [this] {
    const QString chosen =
        QFileDialog::getExistingDirectory(this, tr("Run folder"), folder_->text());
    if (!chosen.isEmpty()) folder_->setText(chosen);
  });
  auto* row = new QHBoxLayout;
  row->addWidget(folder_, 1);
  row->addWidget(choose);
  form->addRow(tr("Run folder"), row);
  form->addRow(new QLabel(tr("What an earlier run left in the folder is replaced."), this));
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel, this);
  buttons->button(QDialogButtonBox::Ok)->setText(tr("Start"));
  connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  form->addRow(buttons);
}

RunOffer RunDialog::offer() const {
  RunOffer offer = offer_;
  offer.steps = steps_->value();
  offer.folder = folder_->text().toStdString();
  return offer;
}

}  // namespace shardscope::gui
