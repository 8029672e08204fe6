// Pictures of traces as SVG, 1200 px wide, light, in colours that colour-blind readers tell apart.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/side_by_side.h"
#include "traces/trace.h"

namespace shardscope {

/// Memory over time of the steady step, stacked by category: the profiled trace filled, the
/// predicted outline over it, both peaks flagged. A null pointer leaves that side out (then the
/// other one is filled); both null throws Error.
std::string memory_figure(Predicted<const Trace*> predicted, Profiled<const Trace*> profiled,
                          std::string_view title);

/// Streams of the steady step: a predicted lane above the profiled lane of each stream, exposed
/// communication hatched, with a ribbon of compute, overlapped, exposed and idle time for each
/// side. A null pointer leaves that side out.
std::string streams_figure(Predicted<const Trace*> predicted, Profiled<const Trace*> profiled,
                           std::string_view title);

/// One rank of each stage of a pipeline, in their order; empty: not known.
struct StageTraces {
  std::vector<const Trace*> predicted;
  std::vector<const Trace*> profiled;
};

/// Micro-batches over the ranks of a pipeline in the steady step: forwards and backwards with their
/// micro-batch's number, the optimizer, and hatched where nothing computes (bubble and exposed
/// communication), with its share of the step for each rank; a predicted row above the profiled
/// one. Clocks of profiled ranks are their hosts'. Throws Error where both sides are empty.
std::string stages_figure(const StageTraces& traces, std::string_view title);

/// One strategy's bars; an absent side draws nothing.
struct StrategyBars {
  std::string label;  ///< "full_shard x2"
  std::optional<Predicted<Bytes>> predicted_peak;
  std::optional<Profiled<Bytes>> profiled_peak;
  std::optional<Predicted<Duration>> predicted_step;
  std::optional<Profiled<Duration>> profiled_step;
};

/// Peak memory and step time per strategy: predicted hollow, profiled solid.
std::string strategies_figure(const std::vector<StrategyBars>& strategies, std::string_view title);

/// One size of a collective.
struct CollectivePoint {
  Bytes bytes;
  std::optional<Predicted<Duration>> predicted;
  Profiled<Duration> profiled;
  std::string choice;  ///< of the library: "RING LL128"; empty: not known
};

/// One kind of collective over sizes, the smallest first.
struct CollectiveCurve {
  OperationKind kind = OperationKind::all_gather;
  int ranks = 2;
  std::vector<CollectivePoint> points;
};

/// Time over bytes, both logarithmic, a panel for each kind and a colour for each number of ranks:
/// measured solid, predicted dashed; the library's choice where it changes.
std::string collectives_figure(const std::vector<CollectiveCurve>& curves, std::string_view title);

/// One way to train, predicted.
struct ParetoPoint {
  std::string number;  ///< beside the point: "1"
  std::string label;   ///< "fsdp2 full_shard"
  std::string detail;  ///< "batch 8, bf16_mixed"
  Duration step, low, high;
  Bytes memory;
  bool on_front = false;  ///< none is both faster and smaller
  bool is_given = false;  ///< the configuration that was asked about
};

/// Memory over step time, with the bands of the times; those on the front are joined. `device`:
/// the memory that a device has, drawn as a line where it is near; 0: not known.
std::string pareto_figure(const std::vector<ParetoPoint>& points, Bytes device,
                          std::string_view title);

}  // namespace shardscope
