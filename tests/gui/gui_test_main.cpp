// Tests of windows run on Qt's offscreen platform, in one application with our own style, and with
// settings of their own.
#include <gtest/gtest.h>

#include <QApplication>
#include <QTemporaryDir>

#include "gui/base/theme.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  qputenv("QT_QPA_PLATFORM", SHARDSCOPE_OFFSCREEN);
  const QTemporaryDir settings;
  qputenv("XDG_CONFIG_HOME", settings.path().toLocal8Bit());
  QApplication application(argc, argv);
  shardscope::gui::set_appearance(application, shardscope::gui::Appearance::light);
  return RUN_ALL_TESTS();
}
