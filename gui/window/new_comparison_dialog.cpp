#include "gui/window/new_comparison_dialog.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDateTime>
#include <QDialogButtonBox>
#include <QFileDialog>
#include <QFormLayout>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QStandardPaths>

#include "gui/base/choice_box.h"
#include "sim/hardware/builtin_profiles.h"

namespace shardscope::gui {
namespace {

QString text_of(std::string_view text) {
  return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

QSpinBox* number(QWidget* parent, std::int64_t value, int most) {
  auto* box = new QSpinBox(parent);
  box->setRange(1, most);
  box->setGroupSeparatorShown(true);
  box->setValue(static_cast<int>(value));
  return box;
}

QFormLayout& form_of(const QDialog& dialog) { return *static_cast<QFormLayout*>(dialog.layout()); }

}  // namespace

NewComparisonDialog::NewComparisonDialog(const NewComparison& start, QWidget* parent)
    : QDialog(parent), start_(start) {
  setWindowTitle(start.config ? tr("Predict a configuration") : tr("New comparison"));
  new QFormLayout(this);
  add_model();
  add_numbers();
  if (!start_.config) add_strategies();
  add_buttons();
  say_what_is_missing();
}

void NewComparisonDialog::add_model() {
  model_ = new QLineEdit(QString::fromStdString(start_.model.string()), this);
  model_->setObjectName(QStringLiteral("model"));
  model_->setPlaceholderText(tr("folder of a Hugging Face model"));
  model_->setMinimumWidth(fontMetrics().averageCharWidth() * 50);
  auto* choose = new QPushButton(tr("&Choose..."), this);
  connect(choose, &QPushButton::clicked, this, [this] {
    const QString chosen = QFileDialog::getExistingDirectory(this, tr("Model"), model_->text());
    if (!chosen.isEmpty()) model_->setText(chosen);
  });
  connect(model_, &QLineEdit::textChanged, this, &NewComparisonDialog::say_what_is_missing);
  auto* row = new QHBoxLayout;
  row->addWidget(model_, 1);
  row->addWidget(choose);
  if (start_.config)
    form_of(*this).addRow(
        tr("Configuration"),
        new QLabel(tr("%1 (%2)").arg(QString::fromStdString(start_.config->name()),
                                     text_of(name_of(start_.config->kind))),
                   this));
  auto* label = new QLabel(tr("&Model"), this);
  label->setBuddy(model_);
  form_of(*this).addRow(label, row);
}

void NewComparisonDialog::add_numbers() {
  cluster_ = new ChoiceBox(this);
  cluster_->setObjectName(QStringLiteral("cluster"));
  cluster_->setEditable(true);  // a file of calibrate, too
  for (const BuiltinProfile& profile : builtin_profiles()) cluster_->addItem(text_of(profile.name));
  cluster_->setCurrentText(QString::fromStdString(start_.cluster));
  connect(cluster_, &QComboBox::currentTextChanged, this,
          &NewComparisonDialog::say_what_is_missing);
  world_ = number(this, start_.world, 1 << 20);
  batch_ = number(this, start_.batch, 1 << 20);
  seq_ = number(this, start_.seq, 1 << 24);
  precision_ = new ChoiceBox(this);
  precision_->addItems({QStringLiteral("bf16_mixed"), QStringLiteral("fp16_mixed"),
                        QStringLiteral("bf16"), QStringLiteral("fp32")});
  QFormLayout& form = form_of(*this);
  form.addRow(tr("C&luster"), cluster_);
  const bool says_world = start_.config && start_.config->kind == ConfigKind::accelerate;
  if (!says_world) form.addRow(tr("&Ranks"), world_);
  world_->setVisible(!says_world);
  form.addRow(tr("Micro-&batch, sequences of a rank"), batch_);
  form.addRow(tr("&Sequence length, tokens"), seq_);
  if (!start_.config) form.addRow(tr("&Precision"), precision_);
  precision_->setVisible(!start_.config);
}

void NewComparisonDialog::add_strategies() {
  auto* grid = new QGridLayout;
  int place = 0;
  for (const OfferedStrategy& offered : offered_strategies()) {
    auto* box = new QCheckBox(
        QStringLiteral("%1 %2").arg(text_of(offered.runtime), text_of(offered.strategy)), this);
    box->setChecked(offered.is_usual);
    connect(box, &QCheckBox::toggled, this, &NewComparisonDialog::say_what_is_missing);
    strategies_.push_back(box);
    grid->addWidget(box, place / 2, place % 2);
    ++place;
  }
  form_of(*this).addRow(tr("Strategies"), grid);
}

void NewComparisonDialog::add_buttons() {
  missing_ = new QLabel(this);
  missing_->setObjectName(QStringLiteral("missing"));
  form_of(*this).addRow(missing_);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel, this);
  predict_ = buttons->button(QDialogButtonBox::Ok);
  predict_->setText(tr("Predict"));
  connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  form_of(*this).addRow(buttons);
}

void NewComparisonDialog::say_what_is_missing() {
  if (missing_ == nullptr) return;
  const std::string missing = what_is_missing(comparison());
  missing_->setText(QString::fromStdString(missing));
  predict_->setEnabled(missing.empty());
}

NewComparison NewComparisonDialog::comparison() const {
  NewComparison comparison = start_;
  comparison.model = model_->text().toStdString();
  comparison.cluster = cluster_->currentText().trimmed().toStdString();
  comparison.precision = precision_->currentText().toStdString();
  comparison.world = world_->value();
  comparison.batch = batch_->value();
  comparison.seq = seq_->value();
  comparison.strategies.clear();
  for (std::size_t i = 0; i < strategies_.size(); ++i)
    if (strategies_[i]->isChecked()) comparison.strategies.push_back(offered_strategies()[i]);
  const QString data = QStandardPaths::writableLocation(QStandardPaths::AppDataLocation);
  const QString now = QDateTime::currentDateTime().toString(QStringLiteral("yyyy-MM-dd_hh.mm.ss"));
  comparison.folder = (data + QStringLiteral("/comparisons/") + now).toStdString();
  return comparison;
}

}  // namespace shardscope::gui
