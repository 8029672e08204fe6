#include "traces/flame.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/traces/chrome_text.h"
#include "tests/traces/match_samples.h"
#include "tests/traces/sample_traces.h"
#include "tests/traces/snapshot_text.h"
#include "traces/flame_stacks.h"
#include "traces/import/snapshot_stacks.h"
#include "traces/match/host_stacks.h"

namespace shardscope {
namespace {

using Amounts = FlameNode::Amounts;

TEST(FlameTree, AddsBothRunsUpAlongTheirPaths) {
  const std::vector<FlameStack> first{{{"forward", "h.0", "mm"}, 7},
                                      {{"forward", "h.0", "gelu"}, 2},
                                      {{"forward", "h.0", "mm"}, 1},
                                      {{"backward"}, 5},
                                      {{"nothing"}, 0}};
  const std::vector<FlameStack> second{{{"forward", "h.0", "gelu"}, 9}, {{"forward", "h.1"}, 4}};
  const FlameTree tree = flame_tree(first, second);
  std::vector<std::pair<std::string, Amounts>> whole;
  for (std::uint32_t i = 0; i < tree.nodes.size(); ++i)
    whole.emplace_back(tree.path_of(i), tree.nodes[i].whole);
  // forward 7 + 2 + 1 = 10 and 9 + 4 = 13; gelu is 9 in the second run, mm 8 in the first.
  EXPECT_EQ(whole, (std::vector<std::pair<std::string, Amounts>>{{"", {15, 13}},
                                                                 {"forward", {10, 13}},
                                                                 {"backward", {5, 0}},
                                                                 {"forward / h.0", {10, 9}},
                                                                 {"forward / h.1", {0, 4}},
                                                                 {"forward / h.0 / gelu", {2, 9}},
                                                                 {"forward / h.0 / mm", {8, 0}}}));
  EXPECT_EQ(tree.nodes[3].own, (Amounts{0, 0}));
  EXPECT_EQ(tree.nodes[6].own, (Amounts{8, 0}));
  EXPECT_TRUE(tree.is_within(6, 1));
  EXPECT_FALSE(tree.is_within(6, 4));
}

TEST(FlameTree, KeepsEqualNodesInTheirOrder) {
  const FlameTree tree =
      flame_tree(std::vector<FlameStack>{{{"h.2"}, 5}, {{"h.10"}, 5}, {{"h.3"}, 6}});
  EXPECT_EQ(tree.nodes[1].name, "h.3");
  EXPECT_EQ(tree.nodes[2].name, "h.2");
  EXPECT_EQ(tree.nodes[3].name, "h.10");
}

TEST(FlameTree, HoldsSumsThatNoIntegerTakes) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::vector<FlameStack> stacks{{{"a"}, most}, {{"a"}, 2}, {{"b"}, most - 1}};
  EXPECT_EQ(flame_tree(stacks).nodes[0].whole[0], most);
  EXPECT_EQ(folded_text(stacks), "a 9223372036854775807\nb 9223372036854775806\n");
}

TEST(FlameTree, OfNothingIsItsRoot) { EXPECT_TRUE(flame_tree({}).empty()); }

TEST(FoldedText, HasALineForEachPathWithoutSemicolonsInNames) {
  EXPECT_EQ(folded_text(std::vector<FlameStack>{
                {{"b", "x;y\nz"}, 3}, {{"a"}, 1}, {{"b", "x;y\nz"}, 4}, {{}, 9}, {{"c"}, -1}}),
            "a 1\nb;x:y z 7\n");
}

TEST(ModuleFrames, KeepNumbersWithWhatTheyCount) {
  EXPECT_EQ(module_frames("transformer.h.0.mlp.c_fc"),
            (std::vector<std::string>{"transformer", "h.0", "mlp", "c_fc"}));
  EXPECT_EQ(module_frames("h.0, h.1"), (std::vector<std::string>{"h.0, h.1"}));
  EXPECT_TRUE(module_frames("").empty());
}

TEST(SplitModule, FindsTheModuleByItsUnit) {
  EXPECT_EQ(split_module("h.0.mlp.c_fc linear_forward", "h.0"),
            (ModuleName{"h.0.mlp.c_fc", "linear_forward"}));
  EXPECT_EQ(split_module("all_gather:h.0", "h.0"), (ModuleName{"h.0", "all_gather"}));
  EXPECT_EQ(split_module("d.h.0.mlp", "h.0"), (ModuleName{"h.0.mlp", "d"}));
  EXPECT_EQ(split_module("h.0.mlp.c_fc", "h.0"), (ModuleName{"h.0.mlp.c_fc", ""}));
  EXPECT_EQ(split_module("h.10 linear", "h.1"), (ModuleName{"h.1", "h.10 linear"}))
      << "h.1 is not in h.10";
  EXPECT_EQ(split_module("lm_head linear_forward", ""), (ModuleName{"lm_head", "linear_forward"}));
  EXPECT_EQ(split_module("gathered parameters", "h.1"), (ModuleName{"h.1", "gathered parameters"}));
}

TEST(TimeStacks, AreTheDurationsOfOneStepByPhaseAndUnit) {
  const Trace trace = samples::two_steps();
  // Of the second step, as the sample says: 120 us on three streams of a step of 100.
  EXPECT_EQ(folded_text(time_stacks(trace, {{100'000}, {200'000}})),
            "backward;h.0;backward 30000\n"
            "backward;h.0;reduce_scatter 30000\n"
            "forward;h.0;all_gather 20000\n"
            "forward;h.0;forward 25000\n"
            "optimizer;adamw 5000\n"
            "other;loss.copy 10000\n");
}

TEST(TimeStacks, NameTheModuleThatTheTraceKnows) {
  Trace trace = samples::empty_trace();
  trace.names = {"aten.mm.default", "h.0.mlp.c_fc", "memset"};
  samples::add_span(trace, SpanClass::compute, 1, 0, 40).operation = {1};
  samples::add_span(trace, SpanClass::compute, 1, 50, 60).operation = {1};
  samples::add_span(trace, SpanClass::copy, 1, 60, 63);
  for (Span& span : trace.spans) span.name = 0;
  trace.spans[2].name = 2;
  trace.facts = {{.operation = {1},
                  .name = "aten.mm.default",
                  .phase = Phase::backward,
                  .unit = "h.0",
                  .module = 1}};
  EXPECT_EQ(folded_text(time_stacks(trace, {{0}, {100}})),
            "backward;h.0;mlp;c_fc;aten.mm.default 50\ncopy;memset 3\n");
}

/// A launch of thread `thread` in [start, start + 1) us, and its kernel.
std::string launched(std::string_view kernel, int thread, int start, int kernel_us, int number) {
  return std::string(
             R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, )") +
         "\"tid\": " + std::to_string(thread) + ", \"ts\": " + std::to_string(start) +
         R"(, "dur": 1, "args": {"correlation": )" + std::to_string(number) + "}},\n" +
         R"({"ph": "X", "cat": "kernel", "name": ")" + std::string(kernel) +
         R"(", "pid": 0, "tid": 7, "ts": )" + std::to_string(1000 * number) +
         ", \"dur\": " + std::to_string(kernel_us) +
         R"(, "args": {"device": 0, "stream": 7, "correlation": )" + std::to_string(number) + "}}";
}

std::string of_thread(int thread, std::string_view category, std::string_view name, int start,
                      int duration) {
  return R"({"ph": "X", "cat": ")" + std::string(category) + R"(", "name": ")" + std::string(name) +
         R"(", "pid": 1, "tid": )" + std::to_string(thread) + ", \"ts\": " + std::to_string(start) +
         ", \"dur\": " + std::to_string(duration) + "}";
}

std::string flow(char phase, int thread, int time) {
  return R"({"ph": ")" + std::string(1, phase) +
         R"(", "cat": "fwdbwd", "name": "fwdbwd", "id": 5, "pid": 1, "tid": )" +
         std::to_string(thread) + ", \"ts\": " + std::to_string(time) + R"(, "bp": "e"})";
}

TEST(HostStacks, NameModulesOfThePythonFramesAlsoOfABackward) {
  const ImportedTrace trace = samples::traced(
      {of_thread(2, "python_function", "train.py(3): main", 0, 100),
       of_thread(2, "python_function", "nn.Module: Net_0", 0, 40),
       of_thread(2, "python_function", "nn.Module: Linear_3", 5, 30),
       of_thread(2, "cpu_op", "aten::linear", 10, 20),
       of_thread(2, "cpu_op", "aten::addmm", 12, 15), flow('s', 2, 12),
       launched("gemm", 2, 15, 40, 1),
       // The node of aten::addmm on autograd's thread.
       of_thread(3, "cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 200, 30),
       flow('f', 3, 200), of_thread(3, "cpu_op", "AddmmBackward0", 205, 20),
       launched("gemm", 3, 210, 70, 2),
       of_thread(2, "user_annotation", "Optimizer.step#SGD.step", 300, 20),
       launched("fused_sgd", 2, 305, 9, 3), launched("alone", 2, 400, 2, 4)});
  EXPECT_EQ(folded_text(host_stacks(trace)),
            "backward;Net_0;Linear_3;AddmmBackward0;gemm 70000\n"
            "forward;Net_0;Linear_3;aten::linear;gemm 40000\n"
            "optimizer;fused_sgd 9000\n"
            "other;alone 2000\n");
  // The window is that of launches: 0 to 200 us has the forward alone.
  const std::int64_t begin = trace.events.start_ns[0];
  EXPECT_EQ(folded_text(host_stacks(trace, TimeWindow{{begin}, {begin + 200'000}})),
            "forward;Net_0;Linear_3;aten::linear;gemm 40000\n");
}

TEST(HostStacks, TakeAnnotationsForScopesAndOperatorsWhereThereIsNoDevice) {
  const ImportedTrace trace = samples::traced(
      {samples::annotation("FSDP::pre_forward (layers.0)", 0, 50),
       samples::host_operator("aten::linear", 10, 20, {}),
       samples::host_operator("aten::addmm", 12, 15, {}),
       samples::host_operator("aten::add", 60, 4, {}), samples::host_operator("Custom", 70, 3, {}),
       samples::host_operator("CustomBackward", 80, 2, {})});
  // A function that Python defines for autograd has a node of its name.
  EXPECT_EQ(folded_text(host_stacks(trace)),
            "forward;Custom 3000\nforward;layers.0;aten::linear 20000\n"
            "other;CustomBackward 2000\nother;aten::add 4000\n");
}

TEST(SnapshotStacks, AreFramesFromTheOutermostAtThePeak) {
  using samples::frame;
  // 300 B live together, then 100 are freed.
  const std::vector<std::string> inner{frame("net.py", 9, "make"), frame("train.py", 1, "main")};
  const MemorySnapshot snapshot =
      samples::snapshot({}, {samples::event("alloc", 0x1000, 200, inner),
                             samples::event("alloc", 0x2000, 100, {frame("train.py", 1, "main")}),
                             samples::event("free_requested", 0x2000, 100),
                             samples::event("free_completed", 0x2000, 100)});
  EXPECT_EQ(folded_text(snapshot_stacks(snapshot, 0)),
            "unknown;train.py:1:main 100\nunknown;train.py:1:main;net.py:9:make 200\n");
}

}  // namespace
}  // namespace shardscope
