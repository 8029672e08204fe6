#include "gui/timeline/timeline_data.h"

#include <gmock/gmock.h>

#include "core/format/atomic_file.h"
#include "gui/data/open_imported.h"
#include "gui/timeline/flow_lines.h"
#include "gui/timeline/range_figures.h"
#include "gui/timeline/span_details.h"
#include "gui/timeline/span_links.h"
#include "gui/timeline/span_search.h"
#include "gui/timeline/timeline_rows.h"
#include "tests/gui/run_samples.h"
#include "tests/gui/scenarios.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::small_scenario;

/// Several profiled ranks beside the one prediction.
ScenarioPointer with_ranks(int ranks) {
  auto scenario = std::make_shared<Scenario>(*small_scenario("one"));
  const Trace first = *scenario->profiled->ranks[0];
  for (int rank = 1; rank < ranks; ++rank) {
    Trace other = first;
    other.rank = rank;
    scenario->profiled->ranks.push_back(std::make_shared<const Trace>(other));
  }
  return scenario;
}

TimelineData data_of(const ScenarioPointer& a, TimeMode mode = TimeMode::step) {
  return prepare_timeline({.a = a, .mode = mode});
}

std::string value_of(const std::vector<SpanDetail>& details, const std::string& what) {
  for (const SpanDetail& detail : details)
    if (detail.what == what) return detail.value;
  return "";
}

TEST(TimelineRows, OnePredictionStandsAboveEveryRank) {
  const TimelineData data = data_of(with_ranks(8));
  ASSERT_EQ(data.blocks.size(), 8u);
  EXPECT_EQ(data.sources.size(), 9u);
  for (const TimelineBlock& block : data.blocks)
    EXPECT_EQ(block.predicted, data.blocks[0].predicted);
}

TEST(TimelineRows, OfManyRanksTheFirstIsOpenAndOthersShowTheirOverlap) {
  const TimelineRows rows = lay_out_rows(data_of(with_ranks(3)), {});
  std::vector<std::string> labels;
  for (const TimelineRow& row : rows.rows)
    if (row.kind != RowKind::lane) labels.push_back(row.label);
  EXPECT_THAT(labels, ::testing::ElementsAre("one, rank 0", "overlap", "overlap", "memory",
                                             "memory", "one, rank 1", "overlap", "overlap",
                                             "one, rank 2", "overlap", "overlap"));
}

TEST(TimelineMemory, LiesOnTheAxisOfItsSideOnOneScale) {
  // 10 MiB, then 15 MiB from 20 us on; profiled 1.25 times as long and on another clock.
  const TimelineData data = data_of(small_scenario("one", 1.25, 500));
  const TimelineBlock& block = data.blocks[0];
  ASSERT_TRUE(block.predicted_memory && block.profiled_memory);
  EXPECT_EQ(level_at(*block.predicted_memory, 19'999)->bytes.total(), Bytes{10 << 20});
  EXPECT_EQ(level_at(*block.predicted_memory, 20'001)->bytes.total(), Bytes{15 << 20});
  EXPECT_EQ(level_at(*block.profiled_memory, 24'999)->bytes.total(), Bytes{10 << 20});
  EXPECT_EQ(level_at(*block.profiled_memory, 25'001)->bytes.total(), Bytes{15 << 20});
  EXPECT_EQ(level_at(*block.profiled_memory, 200'000), nullptr) << "after its end";
  EXPECT_EQ(block.highest_memory(), Bytes{15 << 20});
}

TEST(TimelineMemory, TellsTheHostsClockFromTheDevices) {
  const TimelineData data = data_of(small_scenario("one"));
  EXPECT_EQ(data.blocks[0].predicted_memory->curve.clock, MemoryClock::host);
  EXPECT_EQ(data.blocks[0].profiled_memory->curve.clock, MemoryClock::device);
  std::vector<std::string> details;
  for (const TimelineRow& row : lay_out_rows(data, {}).rows)
    if (row.kind == RowKind::memory) details.push_back(row.detail);
  EXPECT_THAT(details,
              ::testing::ElementsAre("host's clock, to 15.0 MiB", "device's clock, to 15.0 MiB"));
}

TEST(TimelineMemory, IsKeptWhileTheAxisIsTheSame) {
  const ScenarioPointer one = small_scenario("one");
  const TimelineData data = data_of(one);
  const auto again = [&](TimeMode mode) {
    return prepare_timeline({.a = one,
                             .mode = mode,
                             .known = data.sources,
                             .known_memory = {data.blocks[0].profiled_memory}});
  };
  EXPECT_EQ(again(TimeMode::step).blocks[0].profiled_memory, data.blocks[0].profiled_memory);
  EXPECT_NE(again(TimeMode::unit).blocks[0].profiled_memory, data.blocks[0].profiled_memory);
}

TEST(TimelineRows, FollowOneAnotherWithoutOverlap) {
  const TimelineRows rows = lay_out_rows(data_of(with_ranks(2)), {});
  for (std::size_t i = 1; i < rows.rows.size(); ++i)
    EXPECT_GE(rows.rows[i].top, rows.rows[i - 1].bottom());
  EXPECT_GE(rows.height, rows.rows.back().bottom());
  EXPECT_EQ(row_at(rows.rows, rows.rows[2].top), &rows.rows[2]);
  EXPECT_EQ(row_at(rows.rows, -1), nullptr);
}

TEST(TimelineRows, TwoRunsOfOneLabelCanBeOpenedApart) {
  const TimelineData data =
      prepare_timeline({.a = small_scenario("one"), .b = small_scenario("one", 2)});
  const TimelineRows rows = lay_out_rows(data, {.toggled = {data.blocks[0].label}});
  std::vector<bool> open;
  for (const TimelineRow& row : rows.rows)
    if (row.kind == RowKind::rank) open.push_back(row.is_open);
  EXPECT_THAT(open, ::testing::ElementsAre(false, true));
}

TEST(TimelineRank, PhasesAndUnitsSpanTheirOperations) {
  auto scenario = std::make_shared<Scenario>();
  Trace trace;
  trace.names = {"x"};
  trace.tracks = {{.name = "compute", .stream = Stream::compute}};
  const Phase phases[] = {Phase::forward, Phase::forward, Phase::backward, Phase::forward};
  const char* units[] = {"a", "b", "b", "a"};
  for (std::uint32_t i = 0; i < 4; ++i) {
    trace.spans.push_back({.start = {i * 10}, .duration = {8}, .operation = {i}});
    trace.facts.push_back(
        {.operation = {i}, .phase = phases[i], .micro_batch = i == 3, .unit = units[i]});
  }
  scenario->predicted = Side{.kind = SideKind::predicted};
  scenario->predicted->ranks = {std::make_shared<const Trace>(trace)};
  const TimelineRank rank = prepare_rank(scenario, SideKind::predicted, 0);
  ASSERT_EQ(rank.tracks.size(), 3u);
  const auto names = [&](const SpanLane& lane) {
    std::vector<std::string> result;
    for (std::size_t i = 0; i < lane.size(); ++i) result.push_back(rank.sections[lane.id(i)].name);
    return result;
  };
  const SpanLane& phase = rank.tracks[0].lanes[0];
  EXPECT_THAT(names(phase), ::testing::ElementsAre("forward 1", "backward 1", "forward 2"));
  EXPECT_EQ(phase.begin(0), 0);
  EXPECT_EQ(phase.end(0), 18);
  // b goes on from forward to backward, but is another colour there.
  EXPECT_THAT(names(rank.tracks[1].lanes[0]), ::testing::ElementsAre("a", "b", "b", "a"));
}

TEST(TimelineRank, WhatWasMatchedOnAHostLiesOnThePredictedStream) {
  auto scenario = std::make_shared<Scenario>(*small_scenario("one"));
  Trace host;
  host.kind = TraceKind::imported;
  host.base_ns = 5000;
  host.names = {"aten::mm"};
  host.tracks = {{.name = "thread 1", .stream = Stream::host}};
  host.spans = {{.start = {100}, .duration = {40}, .span_class = SpanClass::compute},
                {.start = {200}, .duration = {40}, .span_class = SpanClass::compute}};
  scenario->profiled->ranks = {std::make_shared<const Trace>(host)};
  scenario->profiled->imported = {std::make_shared<const ImportedTrace>()};
  Trace matched = *scenario->predicted->ranks[0];
  matched.base_ns = 0;
  matched.spans = {{.start = {5200}, .duration = {40}, .track = 0, .operation = {1}}};
  scenario->match =
      SideMatch{.ranks = {RankMatch{}}, .matched = {std::make_shared<const Trace>(matched)}};
  const TimelineRank rank = prepare_rank(scenario, SideKind::profiled, 0);
  EXPECT_FALSE(rank.operation_of(0).valid());
  EXPECT_EQ(rank.operation_of(1), OperationId{1});
  const auto stream = std::find_if(rank.tracks.begin(), rank.tracks.end(), [](const auto& track) {
    return track.group == TrackGroup::streams;
  });
  ASSERT_NE(stream, rank.tracks.end());
  EXPECT_EQ(stream->label, "compute");
  ASSERT_EQ(stream->lanes[0].size(), 1u);
  EXPECT_EQ(stream->lanes[0].id(0), 1u);
  EXPECT_EQ(stream->lanes[0].colour(0), SpanColour::forward) << "by the prediction's facts";
}

TEST(RangeFigures, OfAHostAloneHaveNoAccounting) {
  auto scenario = std::make_shared<Scenario>(*small_scenario("one"));
  Trace host = *scenario->profiled->ranks[0];
  for (Track& track : host.tracks) track.stream = Stream::host;
  scenario->profiled->ranks = {std::make_shared<const Trace>(host)};
  const RangeFigures figures = range_figures(data_of(scenario), {.begin = 0, .end = 1000});
  EXPECT_TRUE(figures.ranks[0].predicted.has_value());
  EXPECT_FALSE(figures.ranks[0].profiled.has_value());
}

TEST(SpanLinks, LeadToTheOtherSideAndToOtherRanks) {
  const TimelineData data = data_of(with_ranks(3));
  const auto place = place_of(data, *data.blocks[1].profiled, LaneItems::spans, 1);
  ASSERT_TRUE(place.has_value());
  std::vector<std::size_t> sources;
  for (const SpanPlace& link : linked_spans(data, *place)) sources.push_back(link.source);
  EXPECT_THAT(sources, ::testing::UnorderedElementsAre(0, 1, 2, 3));
}

TEST(SpanLinks, FollowFlowsFromTheSpanAroundTheirBegin) {
  const shardscope::testing::ScratchFolder folder;
  const auto file = folder / "flow.pt.trace.json";
  write_atomically(file, R"({"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": 1,
     "args": {"device": 0, "stream": 7}},
    {"ph": "X", "cat": "cpu_op", "name": "block", "pid": 1, "tid": 1, "ts": 0, "dur": 40},
    {"ph": "X", "cat": "cpu_op", "name": "linear", "pid": 1, "tid": 1, "ts": 10, "dur": 5},
    {"ph": "X", "cat": "cpu_op", "name": "LinearBackward", "pid": 1, "tid": 2, "ts": 50, "dur": 9},
    {"ph": "X", "cat": "cpu_op", "name": "other", "pid": 1, "tid": 2, "ts": 70, "dur": 9},
    {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 3, "pid": 1, "tid": 1, "ts": 10},
    {"ph": "f", "bp": "e", "cat": "fwdbwd", "name": "fwdbwd", "id": 3, "pid": 1, "tid": 2, "ts": 50},
    {"ph": "f", "bp": "e", "cat": "else", "name": "else", "id": 3, "pid": 1, "tid": 2, "ts": 70}
  ]})");
  const ScenarioPointer scenario = open_imported(file).at(0);
  const TimelineData data = data_of(scenario);
  const auto named = [&](std::string_view name) {
    for (std::size_t t = 0; t < data.sources[0]->tracks.size(); ++t)
      for (std::size_t l = 0; l < data.sources[0]->tracks[t].lanes.size(); ++l)
        for (std::size_t i = 0; i < data.sources[0]->tracks[t].lanes[l].size(); ++i)
          if (name_of(data, {0, t, l, i}) == name) return SpanPlace{0, t, l, i};
    ADD_FAILURE() << name;
    return SpanPlace{};
  };
  const SpanPlace from = named("linear"), to = named("LinearBackward");
  EXPECT_THAT(linked_spans(data, from), ::testing::UnorderedElementsAre(from, to));
  EXPECT_THAT(linked_spans(data, to), ::testing::UnorderedElementsAre(from, to));
  EXPECT_THAT(linked_spans(data, named("block")), ::testing::ElementsAre(named("block")))
      << "the flow begins in the inner one";
}

/// Begins and ends of all lines as names.
std::vector<std::pair<std::string, std::string>> ends_of(const TimelineData& data) {
  std::vector<std::pair<std::string, std::string>> ends;
  for (const FlowLine& line : flow_lines(data))
    ends.emplace_back(name_of(data, line.from), name_of(data, line.to));
  return ends;
}

TEST(FlowLines, GoFromEachLaunchToWhatItLaunched) {
  auto scenario = std::make_shared<Scenario>(*small_scenario("one", 1));
  Trace trace = *scenario->profiled->ranks[0];
  trace.names.emplace_back("launch");
  trace.tracks.push_back({.name = "host", .stream = Stream::host});
  trace.spans.push_back({.start = {-5000},
                         .duration = {1000},
                         .name = 2,
                         .track = 2,
                         .span_class = SpanClass::host,
                         .operation = {2},
                         .step = 1});
  scenario->profiled->ranks = {std::make_shared<const Trace>(trace)};
  const TimelineData data = data_of(scenario);
  EXPECT_THAT(ends_of(data), ::testing::ElementsAre(std::pair("launch", "all_gather layers.1")));
  const std::vector<FlowLine> lines = flow_lines(data);
  // The all_gather begins 45 us after the first thing that the side has, its launch.
  EXPECT_TRUE(flows_in(lines, {.begin = lines[0].time + 1, .end = 1e9}, 10).empty());
  EXPECT_EQ(flows_in(lines, {.begin = lines[0].time, .end = 1e9}, 10), lines);
}

TEST(FlowLines, TieACollectiveOfEachRankToTheNext) {
  const TimelineData data = data_of(with_ranks(3));
  const std::vector<FlowLine> lines = flow_lines(data);
  ASSERT_EQ(lines.size(), 2u) << "three profiled ranks, one collective";
  for (const FlowLine& line : lines) {
    EXPECT_TRUE(line.is_peer);
    EXPECT_EQ(line.to.source, line.from.source + 1);
    EXPECT_EQ(name_of(data, line.from), "all_gather layers.1");
  }
}

TEST(FlowLines, AreThoseOfAFileByCorrelationAndByItsFlowEvents) {
  const shardscope::testing::ScratchFolder folder;
  const auto file = folder / "flow.pt.trace.json";
  write_atomically(file, R"({"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 20, "dur": 1,
     "args": {"device": 0, "stream": 7, "correlation": 4}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 12,
     "dur": 2, "args": {"correlation": 4}},
    {"ph": "X", "cat": "cpu_op", "name": "linear", "pid": 1, "tid": 1, "ts": 10, "dur": 5},
    {"ph": "X", "cat": "cpu_op", "name": "LinearBackward", "pid": 1, "tid": 2, "ts": 50, "dur": 9},
    {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 4, "pid": 1, "tid": 1, "ts": 12},
    {"ph": "f", "bp": "e", "cat": "ac2g", "name": "ac2g", "id": 4, "pid": 0, "tid": 7, "ts": 20},
    {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 3, "pid": 1, "tid": 1, "ts": 10},
    {"ph": "f", "bp": "e", "cat": "fwdbwd", "name": "fwdbwd", "id": 3, "pid": 1, "tid": 2, "ts": 50}
  ]})");
  const ScenarioPointer scenario = open_imported(file).at(0);
  EXPECT_THAT(ends_of(data_of(scenario)),
              ::testing::ElementsAre(std::pair("cudaLaunchKernel", "k"),
                                     std::pair("linear", "LinearBackward")));
}

TEST(FlowLines, AreChosenEvenlyWhereThereAreMany) {
  std::vector<FlowLine> lines(100);
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i].time = static_cast<double>(i);
  const std::vector<FlowLine> some = flows_in(lines, {.begin = 0, .end = 100}, 30);
  ASSERT_EQ(some.size(), 25u) << "each 3rd would be 34, each 4th is 25";
  EXPECT_EQ(some[24].time, 96);
  EXPECT_EQ(flows_in(lines, {.begin = 0, .end = 100}, 100), lines) << "there are not more";
  EXPECT_EQ(flows_in(lines, {.begin = 0, .end = 100}, 50).size(), 50u) << "each 2nd";
}

TEST(SpanDetails, TellBothSidesWithTheSignedError) {
  const TimelineData data = data_of(small_scenario("one", 1.25));
  const auto place = place_of(data, *data.blocks[0].profiled, LaneItems::spans, 1);
  const auto details = span_details(data, *place);
  EXPECT_EQ(value_of(details, "name"), "all_gather layers.1");
  EXPECT_EQ(value_of(details, "unit"), "layers.1");
  // 60 us against 75 us: (60 - 75) / 75 = -20%.
  EXPECT_EQ(value_of(details, "predicted"), "60.0 us, prediction off by -20.0%");
  // 8,192 B in 75 us.
  EXPECT_EQ(value_of(details, "algbw"), "109 MB/s");
}

TEST(SpanSearch, MindsCaseOnlyWhereThereIsACapital) {
  const TimelineData data = data_of(small_scenario("one"));
  EXPECT_EQ(search_spans(data, "all_gather").hits.size(), 2u);
  EXPECT_EQ(search_spans(data, "ALL_gather").hits.size(), 0u);
  EXPECT_EQ(search_spans(data, "").hits.size(), 0u);
  // Compute of the unit, its section, on both sides.
  EXPECT_EQ(search_spans(data, "layers.0").hits.size(), 4u);
}

TEST(SpanSearch, OfMoreThanAreWantedTheFirstAreKept) {
  // Of 6 ranks the hits lie at 40 us of the prediction and six times at 50 us.
  const TimelineData data = data_of(with_ranks(6));
  const SearchHits all = search_spans(data, "all_gather");
  ASSERT_EQ(all.hits.size(), 7u);
  EXPECT_FALSE(all.are_the_first);
  for (const std::size_t most : {1u, 2u, 5u, 6u, 7u}) {
    const SearchHits some = search_spans(data, "all_gather", {}, most);
    EXPECT_THAT(some.hits, ::testing::ElementsAreArray(all.hits.data(), most));
    EXPECT_EQ(some.are_the_first, most < 7) << most;
  }
}

TEST(RangeFigures, OfBothSidesSumToTheRange) {
  const TimelineData data = data_of(small_scenario("one", 1.25, 300));
  const RangeFigures figures = range_figures(data, {.begin = 20'000, .end = 110'000});
  ASSERT_EQ(figures.ranks.size(), 1u);
  const RangeAccounting& rank = figures.ranks[0];
  for (const auto& time : {rank.predicted, rank.profiled}) {
    ASSERT_TRUE(time.has_value());
    EXPECT_EQ(time->span.ns, 90'000);
    EXPECT_EQ(time->compute + time->exposed_communication + time->exposed_copy + time->idle,
              time->span);
  }
  EXPECT_EQ(rank.predicted->idle.ns, 10'000) << "it ends at 100 us";
  EXPECT_EQ(rank.profiled->compute.ns, 55'000) << "[20, 75) us";
  ASSERT_EQ(figures.operations.size(), 2u);
  EXPECT_EQ(figures.operations[0].name, "all_gather layers.1");
  EXPECT_EQ(figures.operations[0].predicted.ns, 60'000);
  EXPECT_EQ(figures.operations[0].profiled.ns, 60'000) << "[50, 110) us of it";
}

TEST(RangeFigures, ExposedStretchesNameTheirCollective) {
  const TimelineData data = data_of(small_scenario("one"));
  const auto exposed = longest_exposed(data, {.begin = 0, .end = 1e6});
  ASSERT_EQ(exposed.size(), 2u);
  EXPECT_EQ(exposed[0].window.length().ns, 50'000);
  EXPECT_EQ(exposed[0].unit, "layers.1");
  EXPECT_EQ(exposed[0].bytes.count, 8192);
}

}  // namespace
}  // namespace shardscope::gui
