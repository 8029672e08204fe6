#include "gui/base/short_name.h"

#include <gtest/gtest.h>

#include <QHeaderView>
#include <QStandardItemModel>
#include <QTableView>
#include <QTest>

#include "gui/table/names_column.h"
#include "gui/timeline/text_rows_model.h"

namespace shardscope::gui {
namespace {

QString shortened(const char* name, qsizetype most) {
  return short_name(QString::fromUtf8(name), most);
}

TEST(ShortName, LeavesOuterModulesAwayUntilItFits) {
  constexpr const char* name = "transformer.h.0.mlp.c_fc linear_forward";
  EXPECT_EQ(shortened(name, 39), QString::fromUtf8(name));
  EXPECT_EQ(shortened(name, 38), QStringLiteral("h.0.mlp.c_fc linear_forward"));
  EXPECT_EQ(shortened(name, 26), QStringLiteral("mlp.c_fc linear_forward"));
  EXPECT_EQ(shortened(name, 20), QStringLiteral("c_fc linear_forward"));
}

TEST(ShortName, NamesTheLeafAndTheDirectionOfABar) {
  constexpr const char* forward = "transformer.h.0.mlp.c_fc linear_forward";
  EXPECT_EQ(shortened(forward, 10), QStringLiteral("c_fc fwd"));
  EXPECT_EQ(shortened(forward, 7), QStringLiteral("c_fc"));
  EXPECT_EQ(shortened(forward, 3), QStringLiteral("c_…"));
  constexpr const char* backward = "transformer.h.0.mlp.c_fc linear_backward_weight";
  EXPECT_EQ(shortened(backward, 20), QStringLiteral("c_fc bwd"));
  EXPECT_EQ(shortened("transformer.h.0.mlp.gelu gelu_backward", 8), QStringLiteral("gelu bwd"));
}

TEST(ShortName, KeepsANumberWithWhatItCounts) {
  EXPECT_EQ(shortened("transformer.h.5", 14), QStringLiteral("h.5"));
  EXPECT_EQ(shortened("model.layers.31", 10), QStringLiteral("layers.31"));
  EXPECT_EQ(shortened("model.layers.31", 5), QStringLiteral("laye…"));
}

TEST(ShortName, KeepsTheKindOfACollective) {
  EXPECT_EQ(shortened("all_gather:transformer.h.1", 20), QStringLiteral("all_gather:h.1"));
  EXPECT_EQ(shortened("all_gather:root", 8), QStringLiteral("root"));
  EXPECT_EQ(shortened("all_gather:transformer.h.1", 5), QStringLiteral("h.1"));
}

TEST(ShortName, LeavesAloneWhatHasNoModules) {
  EXPECT_EQ(shortened("", 3), QString());
  EXPECT_EQ(shortened("forward", 7), QStringLiteral("forward"));
  EXPECT_EQ(shortened("at::native::copy_kernel", 8), QStringLiteral("at::nat…"));
  EXPECT_EQ(shortened("1.5 ms late.", 6), QStringLiteral("1.5 m…"));
}

TEST(ElidedName, LeavesWhatAllNamesShareAwayWhereThereIsLittleRoom) {
  const QFontMetrics metrics{QFont()};
  const QString whole = QStringLiteral("transformer.h.1.mlp");
  const QString common = QStringLiteral("transformer.");
  const int room = metrics.horizontalAdvance(whole);
  EXPECT_EQ(elided_name(whole, common, metrics, room), whole);
  EXPECT_EQ(elided_name(whole, common, metrics, room - 1), QStringLiteral("…h.1.mlp"));
  EXPECT_EQ(elided_name(QStringLiteral("(root)"), common, metrics, room), QStringLiteral("(root)"));
}

TEST(TextRowsModel, KnowsWhatItsNamesShare) {
  TextRowsModel model({QStringLiteral("Operation")}, nullptr);
  model.show({{{QStringLiteral("transformer.h.0.mlp fwd")}},
              {{QStringLiteral("transformer.h.1.mlp fwd")}}});
  EXPECT_EQ(model.common_modules(), QStringLiteral("transformer."));
}

/// 3 columns of 100 pixels, the first of at least 60.
class NamesColumn : public ::testing::Test {
 protected:
  NamesColumn() {
    table_.setModel(&model_);
    table_.horizontalHeader()->setDefaultSectionSize(100);
    widen_names(table_, 60);
    table_.show();
  }
  int names_at(int width) {
    table_.resize(width, 200);
    return QTest::qWaitFor([&] { return table_.width() == width; }) ? table_.columnWidth(0) : -1;
  }
  int frame() const { return table_.width() - table_.viewport()->width(); }

  QStandardItemModel model_{1, 3};
  QTableView table_;
};

TEST_F(NamesColumn, TakesWhatTheOthersLeave) {
  EXPECT_EQ(names_at(500), 300 - frame());
  EXPECT_EQ(names_at(400), 200 - frame());
  EXPECT_EQ(names_at(220), 60);
  EXPECT_EQ(table_.columnWidth(2), 100);
}

TEST_F(NamesColumn, KeepsTheWidthThatAUserGave) {
  names_at(500);
  table_.setColumnWidth(0, 90);
  EXPECT_EQ(names_at(450), 90);
}

}  // namespace
}  // namespace shardscope::gui
