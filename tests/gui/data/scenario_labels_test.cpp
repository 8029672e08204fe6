#include "gui/data/scenario_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "gui/data/find_scenario.h"

namespace shardscope::gui {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ScenarioPointer scenario(const std::string& label, const std::string& path) {
  Scenario made;
  made.label = label;
  made.path = path;
  return std::make_shared<const Scenario>(std::move(made));
}

/// As a workspace has them.
std::vector<ScenarioPointer> called(const std::vector<ScenarioPointer>& all) {
  const std::vector<std::string> labels = labels_apart(all);
  std::vector<ScenarioPointer> result;
  for (std::size_t i = 0; i < all.size(); ++i)
    result.push_back(scenario(labels[i], all[i]->path.string()));
  return result;
}

TEST(ScenarioLabels, ThatDifferStayAsTheyAre) {
  EXPECT_THAT(labels_apart({scenario("ddp x2", "a/x"), scenario("zero1 x2", "b/x")}),
              ElementsAre("ddp x2", "zero1 x2"));
}

TEST(ScenarioLabels, TakeTheNearestPartOfThePathThatDiffers) {
  EXPECT_THAT(labels_apart({scenario("full_shard x2", "/runs/round_1/full_shard"),
                            scenario("zero1 x2", "/runs/round_1/zero1"),
                            scenario("full_shard x2", "/runs/round_2/full_shard/")}),
              ElementsAre("full_shard x2 (round_1)", "zero1 x2", "full_shard x2 (round_2)"));
}

TEST(ScenarioLabels, TakeTheSettingsWhereTheyDiffer) {
  Scenario small{
      .label = "fsdp2 full_shard x8", .settings = "batch 4 x 2, bf16_mixed", .path = "places/1"};
  Scenario large{
      .label = "fsdp2 full_shard x8", .settings = "batch 8, bf16_mixed", .path = "places/2"};
  const auto both = [&] {
    return labels_apart(
        {std::make_shared<const Scenario>(small), std::make_shared<const Scenario>(large)});
  };
  EXPECT_THAT(both(),
              ElementsAre("fsdp2 full_shard x8 (batch 4 x 2)", "fsdp2 full_shard x8 (batch 8)"));
  small.label = both().front();
  EXPECT_EQ(own_label(small), "fsdp2 full_shard x8");
  large.settings = small.settings;
  EXPECT_THAT(both(), ElementsAre("fsdp2 full_shard x8 (1)", "fsdp2 full_shard x8 (2)"));
}

TEST(ScenarioLabels, TakeSeveralPartsWhereNoSingleOneTellsThemApart) {
  EXPECT_THAT(
      labels_apart({scenario("x", "r/a/1"), scenario("x", "r/a/2"), scenario("x", "r/b/1")}),
      ElementsAre("x (a/1)", "x (a/2)", "x (b/1)"));
}

TEST(ScenarioLabels, AreMadeAnewFromTheirOwnPart) {
  const auto two = called({scenario("x", "a (old)/x"), scenario("x", "b/x")});
  EXPECT_EQ(two[0]->label, "x (a (old))");
  EXPECT_EQ(own_label(*two[0]), "x");
  EXPECT_THAT(labels_apart(two), ElementsAre("x (a (old))", "x (b)"));
  EXPECT_THAT(labels_apart({two[0]}), ElementsAre("x"));
}

TEST(ScenarioLabels, OfManyLettersEndInAnEllipsis) {
  std::string letters;
  for (int i = 0; i < 81; ++i) letters += "\u00e9";  // two bytes each
  const std::string label = labels_apart({scenario(letters, "a")}).front();
  EXPECT_EQ(label, letters.substr(0, 160) + "\u2026");
  EXPECT_THAT(labels_apart({scenario(label, "a")}), ElementsAre(label));
  EXPECT_THAT(labels_apart({scenario(letters.substr(0, 160), "a")}),
              ElementsAre(letters.substr(0, 160)));
}

TEST(FindScenario, ANameOfSeveralIsAskedBack) {
  const auto all = called({scenario("full_shard x2", "round_1/full_shard"),
                           scenario("full_shard x2", "round_2/full_shard")});
  EXPECT_EQ(find_scenario(all, "full_shard x2 (round_2)", "--a"), all[1]);
  EXPECT_EQ(find_scenario(all, "round_1/full_shard", "--a"), all[0]);
  for (const char* name : {"full_shard x2", "full_shard"}) try {
      find_scenario(all, name, "--a");
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      const std::string told = error.what();
      EXPECT_THAT(told, HasSubstr("--a: 2 that are open are called \"" + std::string(name)));
      EXPECT_THAT(told, HasSubstr("\"full_shard x2 (round_1)\", \"full_shard x2 (round_2)\""));
      EXPECT_EQ(told.find('\n'), std::string::npos);
    }
}

}  // namespace
}  // namespace shardscope::gui
