#include "gui/window/message_banner.h"

#include <QClipboard>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>

namespace shardscope::gui {
namespace {

constexpr int most_messages = 5;

}  // namespace

MessageBanner::MessageBanner(QWidget* parent) : QFrame(parent) {
  setObjectName(QStringLiteral("message_banner"));
  setFrameShape(QFrame::StyledPanel);
  setAccessibleName(tr("Messages"));
  auto* sign = new QLabel(QStringLiteral("\u26a0"), this);
  text_ = new QLabel(this);
  text_->setTextFormat(Qt::PlainText);
  text_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  text_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  auto* copy = new QPushButton(tr("Copy"), this);
  auto* close = new QPushButton(tr("Dismiss"), this);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(8, 2, 8, 2);
  row->addWidget(sign);
  row->addWidget(text_, 1);
  row->addWidget(copy);
  row->addWidget(close);
  connect(copy, &QPushButton::clicked, this,
          [this] { QGuiApplication::clipboard()->setText(messages_.join(u'\n')); });
  connect(close, &QPushButton::clicked, this, &MessageBanner::dismiss);
}

void MessageBanner::tell(const QString& message) {
  if (messages_.contains(message)) return;
  messages_ += message;
  if (messages_.size() > most_messages) messages_.removeFirst();
  show_messages();
}

void MessageBanner::withdraw(const QString& path) {
  // "/runs/a" is not named by "/runs/a.json".
  const auto names = [&](const QString& message) {
    const qsizetype end = message.indexOf(path) + path.size();
    if (end < path.size()) return false;
    return end == message.size() || QStringLiteral("/: ,;").contains(message[end]);
  };
  const auto gone = messages_.removeIf(names);
  if (gone > 0) show_messages();
}

void MessageBanner::show_messages() {
  text_->setText(messages_.join(u'\n'));
  text_->setToolTip(text_->text());
  text_->setAccessibleName(text_->text());
  Q_EMIT changed();
}

void MessageBanner::dismiss() {
  messages_.clear();
  Q_EMIT changed();
}

}  // namespace shardscope::gui
