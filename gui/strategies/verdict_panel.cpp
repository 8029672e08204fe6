#include "gui/strategies/verdict_panel.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QResizeEvent>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

namespace shardscope::gui {
namespace {

QLabel* new_label(QWidget* parent, const QString& name) {
  auto* label = new QLabel(parent);
  label->setAccessibleName(name);
  label->setTextFormat(Qt::PlainText);
  label->setWordWrap(true);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  return label;
}

QString line(const std::string& text) { return QString::fromStdString(text); }

}  // namespace

VerdictPanel::VerdictPanel(QWidget* parent)
    : QWidget(parent),
      sentence_(new_label(this, tr("Verdict"))),
      reasons_(new_label(this, tr("What the verdict rests on"))),
      why_(new QToolButton(this)) {
  QFont large = font();
  large.setPointSizeF(large.pointSizeF() * 1.25);
  large.setBold(true);
  sentence_->setFont(large);
  sentence_->setObjectName(QStringLiteral("verdict"));
  reasons_->setObjectName(QStringLiteral("verdict_reasons"));
  why_->setText(tr("Figures"));
  why_->setToolTip(tr("The figures that this rests on"));
  why_->setCheckable(true);
  why_->setChecked(true);
  connect(why_, &QToolButton::toggled, this, [this](bool is_shown) {
    reasons_->setVisible(is_shown);
    setMinimumHeight(0);
    keep_height();
  });
  auto* head = new QHBoxLayout;
  head->addWidget(sentence_, 1);
  head->addWidget(why_, 0, Qt::AlignTop);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(10, 8, 10, 6);
  layout->setSpacing(4);
  layout->addLayout(head);
  layout->addWidget(reasons_);
}

void VerdictPanel::show(const std::vector<Verdict>& verdicts, const QString& hint) {
  QStringList lines;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    if (i > 0)
      lines += line(verdicts[i].sentence);
    else
      for (const std::string& reason : verdicts[i].reasons) lines += line(reason);
  }
  sentence_->setText(verdicts.empty() ? hint : line(verdicts.front().sentence));
  if (!verdicts.empty() && !hint.isEmpty()) lines += hint;
  reasons_->setText(lines.join(QLatin1Char('\n')));
  reasons_->setVisible(why_->isChecked() && !lines.isEmpty());
  why_->setVisible(!lines.isEmpty());
  sentence_->setAccessibleName(tr("Verdict: %1").arg(sentence_->text()));
  reasons_->setAccessibleName(tr("What the verdict rests on: %1").arg(reasons_->text()));
  keep_height();
}

void VerdictPanel::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  if (event->size().width() == event->oldSize().width()) return;
  setMinimumHeight(0);
  keep_height();
}

/// What stands below does not move when a shorter sentence follows.
void VerdictPanel::keep_height() {
  setMinimumHeight(std::max(minimumHeight(), layout()->heightForWidth(width())));
}

QString VerdictPanel::sentence() const { return sentence_->text(); }
QString VerdictPanel::reasons() const { return reasons_->text(); }

}  // namespace shardscope::gui
