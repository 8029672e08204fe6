#include "gui/data/opened_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gui/data/import_findings.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

using ::shardscope::testing::small_scenario;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(OpenedText, SaysWhatTheFileHolds) {
  EXPECT_EQ(opened_text("/runs/one", {small_scenario("full_shard x2")}),
            "Opened one: full_shard x2 (predicted: 1 rank, 2 spans; profiled: 1 rank, 2 spans)");
  EXPECT_THAT(opened_text("/runs/demo/", {small_scenario("a"), small_scenario("b")}),
              HasSubstr("Opened demo: 2 scenarios, the first a (predicted"));
  EXPECT_EQ(opened_text("/runs/empty", {}), "Opened empty: nothing to show in it");
}

TEST(Incomplete, AWholeRunIsNot) { EXPECT_THAT(incomplete(*small_scenario("one")), IsEmpty()); }

TEST(Incomplete, LostRecordsAreSaidWithTheirRank) {
  Scenario scenario = *small_scenario("one");
  Trace lossy = *scenario.profiled->ranks[0];
  lossy.rank = 3;
  lossy.recording.dropped_records = 1234;
  scenario.profiled->ranks[0] = std::make_shared<const Trace>(lossy);
  EXPECT_THAT(incomplete(scenario),
              ElementsAre("one: rank 3: 1,234 records were lost while it was recorded"));
}

TEST(Incomplete, AFileThatIsCutOffAndOneWithoutAUsableEvent) {
  ImportReport report{.format = "kineto", .events_read = 10, .events_kept = 10};
  report.odd["the file is cut off"] = 1;
  Scenario scenario{.label = "cut"};
  add_import_findings(report, "cut.json", scenario.findings);
  EXPECT_THAT(incomplete(scenario),
              ElementsAre("cut.json: the file is cut off: what comes after it is missing"));
  Scenario empty{.label = "empty"};
  add_import_findings({.format = "kineto", .events_read = 7}, "none.json", empty.findings);
  ASSERT_THAT(incomplete(empty), SizeIs(1));
  EXPECT_THAT(incomplete(empty).front(), HasSubstr("none.json: no usable event among 7"));
}

TEST(Incomplete, AFewSkippedEventsOfManyAreOnlyInDiagnostics) {
  ImportReport report{.format = "kineto", .events_read = 1000, .events_kept = 995};
  report.skipped["no duration"] = 5;
  Scenario scenario{.label = "one"};
  add_import_findings(report, "few.json", scenario.findings);
  EXPECT_THAT(incomplete(scenario), IsEmpty());
  report.skipped["no duration"] = 11;  // more than one of a hundred
  add_import_findings(report, "many.json", scenario.findings);
  EXPECT_THAT(incomplete(scenario), ElementsAre("many.json: 11 events skipped: no duration"));
}

TEST(Incomplete, ASideWithNothingToDraw) {
  Scenario scenario{.label = "nothing"};
  scenario.profiled = Side{.kind = SideKind::profiled, .source = "/runs/nothing.json"};
  scenario.profiled->ranks = {std::make_shared<const Trace>()};
  EXPECT_THAT(incomplete(scenario), ElementsAre("/runs/nothing.json: has no usable event: there is "
                                                "nothing to draw"));
}

}  // namespace
}  // namespace shardscope::gui
