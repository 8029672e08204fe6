// Where a real run differs from its prediction, by operation, and why it is likely to.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/side_by_side.h"
#include "traces/analysis.h"
#include "traces/peer_waits.h"
#include "traces/trace.h"

namespace shardscope {

enum class DifferenceCause : std::uint8_t {
  unknown,
  size,        ///< it reads and writes another number of bytes
  late_peer,   ///< it waited for a rank that came late
  queued,      ///< it waited for a collective of its own rank
  host,        ///< the host issued it late
  contention,  ///< something else ran beside it that was not to
  processor,   ///< its threads were not always on a processor, or the clock was lower
  bandwidth,   ///< bytes moved at another rate
  arithmetic,  ///< operations were done at another rate
};
std::string_view name_of(DifferenceCause cause);

struct Cause {
  DifferenceCause kind = DifferenceCause::unknown;
  std::optional<int> rank;  ///< that came late
  std::string reason;       ///< with numbers: "rank 1 came 2.10 ms after this one"
};

/// One operation in both. `total` is its time with the gap before it in its stream (compute only),
/// so that over the compute stream totals sum to the step's time, but for its end.
struct OperationDifference {
  OperationId operation;
  std::string name;
  OperationKind kind = OperationKind::compute;
  Phase phase = Phase::other;
  std::string unit;
  SideBySide<Duration> duration;
  SideBySide<Duration> gap;
  SideBySide<Bytes> bytes;
  Cause cause;  ///< of those in `largest` only

  SideBySide<Duration> total() const {
    return {{duration.predicted.value + gap.predicted.value},
            {duration.profiled.value + gap.profiled.value}};
  }
  Duration difference() const { return shardscope::difference(total()); }
};

/// How one rank spent its profiled steps.
struct RankTime {
  int rank = 0;
  Accounting time;                      ///< of its profiled steps together; the parts sum to span
  std::optional<PeerWaitTotals> waits;  ///< over these steps, where they were measured
};

/// A rank whose trace is not among those that are compared.
struct MissingTrace {
  int rank = 0;
  std::string reason;  ///< one line
};

struct Differences {
  std::vector<int> steps;  ///< that were profiled
  bool has_prediction = false;
  SideBySide<Duration> step_time;  ///< of the steady step of each; the predicted one 0 without
  /// Of a step: the steady predicted one; of the profiled ones the median of their means over
  /// ranks, because who waits for whom changes from step to step.
  SideBySide<Duration> exposed_communication;
  std::vector<RankTime> ranks;
  std::vector<MissingTrace> missing;            ///< which the caller of find_differences() adds
  std::vector<OperationDifference> operations;  ///< ascending by id; empty without a prediction
  std::size_t only_predicted = 0;               ///< operations that did not run in these steps
  std::size_t only_profiled = 0;                ///< that ran and were not predicted
  std::vector<OperationDifference> largest;     ///< five at most, the largest |difference()| first
  RecordingFacts recording;                     ///< of the rank that is compared
  CategoryBytes at_peak;                        ///< its live bytes when they were most
};

/// `profiled`: ranks of one run on one clock, not empty; the first is compared with `predicted`
/// (null: none), the others say who came late. Each operation is taken in its typical execution
/// (`typical_runs`).
Differences find_differences(const Trace* predicted, std::span<const Trace> profiled);

/// For people: a line on time for each rank, who held memory, then the largest differences, with
/// what columns mean. Ends in a newline.
std::string to_text(const Differences& differences);
/// comparison.json (docs/cli.md).
std::string to_json(const Differences& differences);

}  // namespace shardscope
