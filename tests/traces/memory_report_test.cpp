#include "traces/import/memory_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/traces/chrome_text.h"
#include "tests/traces/pickle_text.h"
#include "tests/traces/snapshot_text.h"
#include "traces/import/analysis_rules.h"
#include "traces/import/snapshot_categories.h"
#include "traces/import/trace_report.h"

namespace shardscope {
namespace {

using samples::event;
using samples::frame;
using testing::ElementsAre;
using testing::IsEmpty;

const std::string fsdp = "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py";

/// The category of a block that was allocated under these frames, innermost first.
std::optional<MemoryCategory> category(const std::vector<std::string>& frames) {
  const auto snapshot = samples::snapshot({}, {event("alloc", 1, 10, frames)});
  return category_of(snapshot, snapshot.events[0].stack[0]);
}

TEST(SnapshotCategories, TheNarrowestRuleDecides) {
  // A gather of FSDP2 happens within a forward hook.
  EXPECT_EQ(category({frame(fsdp, 100, "allocate"), frame("model.py", 5, "forward")}),
            MemoryCategory::communication);
  EXPECT_EQ(category({frame("torch/optim/adam.py", 179, "_init_group"),
                      frame("torch/optim/adam.py", 230, "step")}),
            MemoryCategory::optimizer_states);
  EXPECT_EQ(category({frame("torch/optim/adamw.py", 400, "_multi_tensor_adamw")}),
            MemoryCategory::temporaries);
  EXPECT_EQ(category({frame("torch/nn/modules/linear.py", 134, "forward")}),
            MemoryCategory::activations);
}

/// As in a backward of torch 2.15 (fsdp1-gpt2-cpp-frames).
TEST(SnapshotCategories, WorkspacesOfCublasAreNoGradients) {
  const std::string library = "site-packages/torch/lib/libtorch_cuda.so";
  EXPECT_EQ(category({frame(library, 0, "at::cuda::allocateCUDABlasWorkspace(unsigned long)"),
                      frame(library, 0, "at::_ops::mm::redispatch(c10::DispatchKeySet)"),
                      frame(library, 0, "torch::autograd::Engine::evaluate_function(GraphTask&)")}),
            MemoryCategory::workspace);
}

TEST(SnapshotCategories, NothingIsGuessedWhereNoRuleFits) {
  EXPECT_EQ(category({}), std::nullopt);
  EXPECT_EQ(category({frame("train.py", 1, "train")}), std::nullopt);
}

TEST(SnapshotCategories, FollowRulesOfYourOwn) {
  const AnalysisRules rules =
      parse_analysis_rules(R"({"memory": [{"file": "cache.py", "category": "workspace"}]})",
                           "mine.json", Definitions::own);
  const auto snapshot =
      samples::snapshot({}, {event("alloc", 1, 10, {frame("my/cache.py", 5, "forward")})});
  EXPECT_THAT(owners_by_category(snapshot, 0, live_blocks(snapshot, 0, 0), rules.memory),
              ElementsAre(MemoryOwner{"workspace", 1, 10_B}));
  EXPECT_EQ(rules.events, class_rules(Definitions::own));
}

TEST(AnalysisRules, ReadBackFromTheirFile) {
  const AnalysisRules rules = analysis_rules(Definitions::trace_lens);
  EXPECT_EQ(parse_analysis_rules(to_json(rules), "rules.json", Definitions::own), rules);
}

TEST(SnapshotCategories, TheProfilersOwnGoFirst) {
  const auto snapshot =
      samples::snapshot({}, {event("alloc", 1, 10, {frame("model.py", 5, "forward")},
                                   {{"category", samples::pickled::text("gradient")}}),
                             event("alloc", 2, 5, {frame("model.py", 5, "forward")})});
  EXPECT_THAT(owners_by_category(snapshot, 0, live_blocks(snapshot, 0, 1)),
              ElementsAre(MemoryOwner{"gradients", 1, 10_B}, MemoryOwner{"unknown", 1, 5_B}));
}

Imported one_rank_with_snapshot() {
  Imported imported;
  imported.traces.push_back(
      samples::imported(samples::chrome_text(samples::kernel("gemm", 7, "1", "2"))));
  imported.snapshots.push_back(samples::snapshot(
      {}, {event("alloc", 1, 10), event("alloc", 2, 20), event("free_requested", 1, 10),
           event("alloc", 3, 5), event("free_completed", 1, 10)}));
  return imported;
}

TEST(MemoryReport, TellsAllocatedFromActive) {
  const auto reports = memory_reports(one_rank_with_snapshot());
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].peak_active, 35_B);     // 10, which waits, 20 and 5
  EXPECT_EQ(reports[0].peak_allocated, 30_B);  // before 10 was freed
  EXPECT_THAT(reports[0].categories, ElementsAre(MemoryOwner{"unknown", 3, 35_B}));
}

TEST(MemoryReport, TheOnlyRankHasTheSnapshotsPeaks) {
  const auto report = report_of(one_rank_with_snapshot());
  ASSERT_EQ(report.ranks.size(), 1u);
  EXPECT_EQ(report.ranks[0].peak_active, 35_B);
}

TEST(MemoryReport, AnotherRanksSnapshotIsNotItsOwn) {
  Imported imported = one_rank_with_snapshot();
  imported.snapshots[0].file = "memory_rank3.pickle";
  const auto report = report_of(imported);
  EXPECT_EQ(report.memory[0].rank, 3);
  EXPECT_EQ(report.ranks[0].peak_active, std::nullopt);
}

TEST(MemoryReport, StandsInTheJson) {
  const auto json = nlohmann::json::parse(to_json(report_of(one_rank_with_snapshot())));
  EXPECT_EQ(json["memory"][0]["peak_active_bytes"], 35);
  EXPECT_EQ(json["memory"][0]["at_peak"][0]["category"], "unknown");
  EXPECT_TRUE(json["memory"][0]["owners_at_peak"][0]["frame"].is_null());
  EXPECT_EQ(json["import"]["format"], "kineto, memory_snapshot");
}

}  // namespace
}  // namespace shardscope
