// From no file at all, and from a configuration, to a picture: through the dialog and the program.
#include <gtest/gtest.h>

#include <QCheckBox>
#include <QDialogButtonBox>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QStandardPaths>
#include <QTest>
#include <filesystem>

#include "gui/window/main_window.h"
#include "gui/window/new_comparison_dialog.h"
#include "tests/gui/patience.h"

namespace shardscope::gui {
namespace {

const std::filesystem::path root = SOURCE_ROOT;

class NewComparisonWindow : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(SHARDSCOPE_PROGRAM))
      GTEST_SKIP() << "the program shardscope is not built";
    qputenv("SHARDSCOPE", SHARDSCOPE_PROGRAM);
    QStandardPaths::setTestModeEnabled(true);
    QObject::connect(&window_, &MainWindow::failed,
                     [this](const QString& message) { failure_ = message.toStdString(); });
  }
  void TearDown() override { QStandardPaths::setTestModeEnabled(false); }

  NewComparisonDialog* dialog() { return window_.findChild<NewComparisonDialog*>(); }
  static QPushButton* predict(NewComparisonDialog& dialog) {
    return dialog.findChild<QDialogButtonBox*>()->button(QDialogButtonBox::Ok);
  }
  void predict_and_wait(NewComparisonDialog& dialog) {
    predict(dialog)->click();
    ASSERT_TRUE(window_.workspace().tasks().wait_until_idle(patience_ms));
  }

  MainWindow window_;
  std::string failure_;
};

TEST_F(NewComparisonWindow, AModelAndACheckBoxAreEnough) {
  for (const Command& command : window_.commands())
    if (command.text == QStringLiteral("New comparison...")) command.run();
  NewComparisonDialog* asks = dialog();
  ASSERT_NE(asks, nullptr);
  EXPECT_FALSE(predict(*asks)->isEnabled());
  EXPECT_FALSE(asks->findChild<QLabel*>(QStringLiteral("missing"))->text().isEmpty());
  asks->findChild<QLineEdit*>(QStringLiteral("model"))
      ->setText(QString::fromStdString((root / "examples/models/gpt2").string()));
  EXPECT_TRUE(predict(*asks)->isEnabled());
  predict_and_wait(*asks);
  EXPECT_EQ(failure_, "");
  // The usual three.
  ASSERT_EQ(window_.workspace().scenarios().size(), 3u);
  EXPECT_EQ(window_.workspace().scenarios()[1]->label, "fsdp2 full_shard x8");
  EXPECT_TRUE(window_.workspace().scenarios()[1]->predicted->has_trace());
}

TEST_F(NewComparisonWindow, AFileOfAccelerateAsksOnlyForWhatItDoesNotSay) {
  window_.open(root / "examples/configs/fsdp_v1.yaml");
  NewComparisonDialog* asks = dialog();
  ASSERT_NE(asks, nullptr);
  EXPECT_TRUE(asks->findChildren<QCheckBox*>().isEmpty());
  asks->findChild<QLineEdit*>(QStringLiteral("model"))
      ->setText(QString::fromStdString((root / "examples/models/qwen2_5_0_5b").string()));
  predict_and_wait(*asks);
  EXPECT_EQ(failure_, "");
  ASSERT_EQ(window_.workspace().scenarios().size(), 1u);
  EXPECT_EQ(window_.workspace().scenarios()[0]->label, "fsdp1 full_shard x8");
}

TEST_F(NewComparisonWindow, WhatTheProgramRefusesIsTold) {
  window_.open(root / "examples/configs/fsdp_v1.yaml");
  NewComparisonDialog* asks = dialog();
  ASSERT_NE(asks, nullptr);
  // The file wraps Qwen2DecoderLayer, which GPT-2 does not have.
  asks->findChild<QLineEdit*>(QStringLiteral("model"))
      ->setText(QString::fromStdString((root / "examples/models/gpt2").string()));
  predict_and_wait(*asks);
  EXPECT_NE(failure_.find("Qwen2DecoderLayer"), std::string::npos) << failure_;
  EXPECT_TRUE(window_.workspace().scenarios().empty());
}

}  // namespace
}  // namespace shardscope::gui
