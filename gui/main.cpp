// shardscope-gui: the desktop application.
#include <QApplication>
#include <QCommandLineParser>

#include "gui/theme.h"
#include "gui/window/main_window.h"

int main(int argc, char** argv) {
  using namespace shardscope::gui;
  QApplication application(argc, argv);
  QApplication::setApplicationName(QStringLiteral("shardscope-gui"));
  QApplication::setApplicationDisplayName(QStringLiteral("Shardscope"));
  QApplication::setDesktopFileName(QStringLiteral("shardscope"));
  QCommandLineParser parser;
  parser.setApplicationDescription(
      QStringLiteral("Lays predicted training runs over profiled ones."));
  parser.addHelpOption();
  parser.addPositionalArgument(QStringLiteral("FILE"),
                               QStringLiteral("run folders, traces, memory snapshots"),
                               QStringLiteral("[FILE...]"));
  parser.process(application);
  set_appearance(application, system_appearance());
  MainWindow window;
  window.show();
  for (const QString& path : parser.positionalArguments()) window.open(path.toStdString());
  return QApplication::exec();
}
