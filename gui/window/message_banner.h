// What went wrong, over the views until it is dismissed; it stops nobody.
#pragma once

#include <QFrame>
#include <QStringList>

class QLabel;

namespace shardscope::gui {

class MessageBanner : public QFrame {
  Q_OBJECT
 public:
  explicit MessageBanner(QWidget* parent);

  /// Shows one line more; the oldest go where there are many.
  void tell(const QString& message);
  /// Takes back what names this path or one inside it, since it holds no longer.
  void withdraw(const QString& path);
  void dismiss();
  const QStringList& messages() const { return messages_; }

 Q_SIGNALS:
  void changed();

 private:
  void show_messages();

  QStringList messages_;
  QLabel* text_ = nullptr;
};

}  // namespace shardscope::gui
