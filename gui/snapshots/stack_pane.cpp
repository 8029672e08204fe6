#include "gui/snapshots/stack_pane.h"

#include <QClipboard>
#include <QFontDatabase>
#include <QGuiApplication>
#include <QLabel>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QVBoxLayout>

namespace shardscope::gui {

StackPane::StackPane(QWidget* parent)
    : QWidget(parent),
      name_(new QLabel(this)),
      facts_(new QLabel(this)),
      frames_(new QPlainTextEdit(this)),
      copy_(new QPushButton(tr("&Copy"), this)) {
  setAccessibleName(tr("Who asked for the block"));
  QFont bold = name_->font();
  bold.setBold(true);
  name_->setFont(bold);
  for (QLabel* label : {name_, facts_}) {
    label->setWordWrap(true);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    label->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  }
  frames_->setReadOnly(true);
  frames_->setLineWrapMode(QPlainTextEdit::NoWrap);
  frames_->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
  frames_->setAccessibleName(tr("Frames, innermost first"));
  connect(copy_, &QPushButton::clicked, this, &StackPane::copy);
  auto* line = new QHBoxLayout;
  line->addStretch(1);
  line->addWidget(copy_);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(6, 4, 6, 4);
  column->addWidget(name_);
  column->addWidget(facts_);
  column->addWidget(frames_, 1);
  column->addLayout(line);
  show_nothing();
}

void StackPane::show_stack(const QString& name, const QString& facts, const QString& frames) {
  name_->setText(name.isEmpty() ? tr("No frame was recorded") : name);
  facts_->setText(facts);
  frames_->setPlainText(frames);
  copy_->setEnabled(true);
}

void StackPane::show_nothing() {
  name_->setText(tr("No block is chosen"));
  facts_->setText(tr("Click a block or a row to see who asked for it."));
  frames_->clear();
  copy_->setEnabled(false);
}

QString StackPane::name() const { return name_->text(); }
QString StackPane::frames() const { return frames_->toPlainText(); }

void StackPane::copy() const {
  QGuiApplication::clipboard()->setText(name_->text() + QLatin1Char('\n') + facts_->text() +
                                        QLatin1Char('\n') + frames_->toPlainText());
}

}  // namespace shardscope::gui
