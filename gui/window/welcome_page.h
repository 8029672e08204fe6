// What the window shows while nothing is open.
#pragma once

#include <QStringList>
#include <QWidget>

class QVBoxLayout;

namespace shardscope::gui {

class WelcomePage : public QWidget {
  Q_OBJECT
 public:
  explicit WelcomePage(QWidget* parent);

  /// The first few are offered.
  void set_recent(const QStringList& paths);

 Q_SIGNALS:
  void wants_folder();
  void wants_file();
  void wants(const QString& path);

 private:
  QVBoxLayout* recent_ = nullptr;
};

}  // namespace shardscope::gui
