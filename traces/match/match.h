// An imported trace of a PyTorch run laid beside the schedule that was predicted for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/strategy.h"
#include "traces/import/imported_trace.h"
#include "traces/match/pair_counts.h"
#include "traces/match/profiled_steps.h"
#include "traces/match/profiled_units.h"
#include "traces/trace.h"

namespace shardscope {

/// What stands on one side alone, or differs between the two.
struct MatchDifference {
  std::string step;  ///< the trace's name of it; "" of what is not a step's
  std::string what;  ///< "runtime", "collectives", "units", "compute", "steps", "world"
  std::string predicted, profiled;  ///< in words; "" where that side has nothing
};

struct CollectivePair {
  OperationId operation;                 ///< of the predicted trace
  std::uint32_t event = 0;               ///< of the imported one
  std::size_t step = 0;                  ///< index into RankMatch::steps
  std::optional<std::size_t> unit = {};  ///< index into RankMatch::units
  Confidence confidence = Confidence::all_fields;
  Duration predicted;
  std::optional<Duration> profiled;  ///< none: the trace has only the call
};

struct ComputePair {
  OperationId operation;
  std::uint32_t event = 0;
  std::size_t step = 0;
  std::optional<std::size_t> unit = {};
  Confidence confidence = Confidence::all_fields;
  Duration predicted, profiled;
};

struct StepPair {
  ProfiledStep profiled;
  std::int32_t predicted = 0;  ///< number of the predicted step that it is like
  Duration predicted_time;
  PairCounts collectives, compute;
  Duration predicted_compute, profiled_compute;  ///< of all operators, matched or not

  /// Has anything in common with the predicted step, or neither has a collective.
  bool is_alike() const {
    return predicted > 0 && (collectives.matched() > 0 || collectives.complete());
  }
};

/// A unit, or a bucket of DDP.
struct UnitPair {
  std::string name;  ///< predicted; "" is the root, "bucket 0" one of DDP
  bool matched = false;
  std::string by;  ///< "name", "order and nesting", "collectives": what it was found by
  /// "FSDP::... (layers.0)", "forward 2 of 4, depth 1", "all-reduce 1 of the backward"; "" where
  /// the trace has nothing in its place
  std::string profiled;
  Confidence confidence = Confidence::all_fields;
};

/// One rank's trace beside the prediction.
struct RankMatch {
  std::string file;
  std::optional<int> rank;
  ProfiledRuntime runtime = ProfiledRuntime::none;
  std::optional<Runtime> predicted_runtime;  ///< none: not known
  StepMarks step_marks = StepMarks::none;
  std::int64_t predicted_steps = 0;  ///< of the prediction: first, second, steady
  std::vector<StepPair> steps;
  std::vector<UnitPair> units;
  std::int64_t profiled_units = 0;
  std::vector<CollectivePair> collectives;
  std::vector<ComputePair> compute;
  std::vector<MatchDifference> differences;  ///< at most `most_differences` of each kind of thing
  std::vector<std::string> notes;            ///< what had to be taken some way, and what to check

  /// The trace's annotations, if there are any, are of the runtime that was predicted.
  bool has_predicted_runtime() const;
  /// Of steps that the trace marks; predicted are those that are like one, and one at least.
  /// Matched is a step all of whose collectives are.
  PairCounts all_steps() const;
  bool is_matched(const StepPair& step) const;
  PairCounts all_collectives() const;
  PairCounts all_compute() const;
  PairCounts all_units() const;
  /// The runtime is the one predicted, and every step, unit and collective has its counterpart.
  bool complete() const;
};

constexpr std::size_t most_differences = 20;

/// Steps by their marks, each laid beside the predicted step that is most like it; units by the
/// annotations of FSDP1, FSDP2 and DDP, unless another `runtime` was predicted; collectives by
/// order, kind, elements, element type, unit and group's size; operators by order, name and shapes.
/// `predicted` must be of the same rank, or of one that does the same.
RankMatch match(const Trace& predicted, const ImportedTrace& profiled,
                std::optional<Runtime> runtime = {});

}  // namespace shardscope
