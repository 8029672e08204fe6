// Tests of windows run on Qt's offscreen platform, in one application with our own style.
#include <gtest/gtest.h>

#include <QApplication>

#include "gui/theme.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  qputenv("QT_QPA_PLATFORM", SHARDSCOPE_OFFSCREEN);
  QApplication application(argc, argv);
  shardscope::gui::set_appearance(application, shardscope::gui::Appearance::light);
  return RUN_ALL_TESTS();
}
