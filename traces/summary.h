// The figures of one run, predicted or profiled: what `simulate --json` prints and summary.json
// holds (docs/cli.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/analysis.h"
#include "traces/trace.h"

namespace shardscope {

struct MemorySummary {
  Bytes peak_allocated;
  Bytes peak_active;
  Bytes peak_reserved;
  Bytes arena;
  Bytes outside;
  Bytes pss;                 ///< as in RunFacts
  std::string at_operation;  ///< name of the operation at the peak; "" if before the step
  CategoryBytes at_peak;
  CategoryBytes maximum;
  bool operator==(const MemorySummary&) const = default;
};

/// Memory of the process that neither an arena nor a caching allocator holds.
struct OutsideItem {
  std::string item;  ///< "CUDA context and kernels"
  Bytes bytes;
  std::string source;
  bool operator==(const OutsideItem&) const = default;
};

/// Why a predicted memory is not exact, and how far off it may be.
struct MemoryAllowance {
  std::string item;    ///< "CUDA context and kernels", "compiled code"
  Bytes below, above;  ///< nine of ten runs need at most that much less or more
  std::string source;
  bool operator==(const MemoryAllowance&) const = default;
};

/// A request for memory that fails: torch.OutOfMemoryError.
struct OutOfMemorySummary {
  std::string step;       ///< "setup", "1", "2", "steady"
  std::string operation;  ///< that asks
  std::string unit;       ///< of the operation; "" is the root, or none
  std::string module;     ///< in whose forward or backward; "" where that is not known
  Bytes requested;
  Bytes allocated, active, reserved;  ///< at that moment
  Bytes free;                         ///< of the device
  std::string message;                ///< PyTorch's words
  bool operator==(const OutOfMemorySummary&) const = default;
};

/// Collectives of a step that are alike, and what a cost model says of each.
struct CollectiveSummary {
  std::string kind;   ///< "all_gather"
  std::string group;  ///< "shard"
  std::int64_t ranks = 0;
  Bytes bytes;  ///< of one: out of the gather or into the reduction
  std::int64_t times = 0;
  Duration time;  ///< of one, when it runs alone
  std::string
      algorithm;         ///< that NCCL is expected to pick: "RING"; "" where it is not NCCL's model
  std::string protocol;  ///< "LL128"
  std::int64_t channels = 0;
  bool operator==(const CollectiveSummary&) const = default;
};

/// DeepSpeed's Python code around modules in a step. It takes the host's time, and the device may
/// work meanwhile.
struct ModuleHooks {
  std::int64_t times = 0;
  Duration time;  ///< of all
  bool operator==(const ModuleHooks&) const = default;
};

/// A step whose place and memory are known better than from the trace's spans and samples.
struct StepFacts {
  std::string label;
  TimeWindow window;
  MemorySummary memory;
};

/// What a summary needs beyond the trace.
struct RunFacts {
  std::string strategy;  ///< "full_shard"
  std::string runtime = "native";
  std::string precision = "fp32";
  std::optional<Bytes> device_memory;  ///< of one device; none: not known, so that everything fits
  std::vector<std::string> assumed;
  std::int64_t tokens_per_step = 0;  ///< of the whole job
  Flops model_flops;                 ///< of one rank and step; 0: no MFU
  FlopRate peak;                     ///< of one device; 0: no MFU
  std::string mfu_formula;
  Bytes arena;    ///< 0: the trace's own
  Bytes outside;  ///< of the process, not in the arena
  Bytes pss;      ///< proportional set size beyond what the process held before; 0: not known
  double low_factor = 1;  ///< on the step time, for its lower and upper bound
  double high_factor = 1;
  std::vector<OutsideItem> outside_items;      ///< what `outside` consists of
  std::vector<MemoryAllowance> allowances;     ///< empty: the memory is exact
  std::vector<CollectiveSummary> collectives;  ///< of the steady step
  std::optional<ModuleHooks> hooks;            ///< alike
  std::vector<StepFacts> steps;                ///< the last one is the steady one; or none
  /// Of a trace of steady steps: what the first step takes longer; the host waits meanwhile.
  std::optional<Duration> first_step_overhead;
  std::optional<OutOfMemorySummary> out_of_memory{};  ///< the run does not get further
};

struct StepSummary {
  std::string label;  ///< "1", "2" or "steady"
  int step = 0;
  Accounting time;  ///< time.span is the step time
  MemorySummary memory;
  bool operator==(const StepSummary&) const = default;
};

/// One rank of every stage of a pipeline, predicted.
struct StageSummary {
  int rank = 0;             ///< of the pipeline
  std::vector<int> stages;  ///< that it has
  int layers = 0;
  Duration compute, exposed_communication, idle;  ///< of a step
  double bubble_share = 0;                        ///< idle, of the step
  Bytes activations;                              ///< at their own peak
  Bytes peak, reserved;
  bool operator==(const StageSummary&) const = default;
};

struct PipelineSummary {
  std::string schedule;  ///< "1F1B"
  int stages_per_rank = 1;
  int micro_batches = 1;
  double bubble_share = 0;  ///< mean over its ranks
  std::vector<StageSummary> ranks;
  bool operator==(const PipelineSummary&) const = default;
};

struct Summary {
  TraceKind kind = TraceKind::predicted;
  std::string strategy;
  std::string runtime;
  int world = 1;
  std::string precision;
  bool fits = true;
  std::optional<Bytes> device_memory;
  /// What a rank offloads to the host's memory, and all ranks of a node; none: nothing.
  std::optional<Bytes> host_memory, host_memory_of_node;
  std::optional<Bytes>
      margin;  ///< that was asked to stay free; none: the usual one (traces/memory_fit.h)
  std::vector<std::string> assumed;
  Duration step_time, step_time_low, step_time_high;  ///< of the steady step
  double tokens_per_s = 0;                            ///< whole job
  double tokens_per_s_per_device = 0;
  std::optional<double> mfu_share;
  std::string mfu_formula;
  Accounting time;
  MemorySummary memory;
  std::vector<StepSummary> steps;  ///< 1 and 2 where a longer trace has them, then the steady one
  std::vector<UnitAccounting> by_unit;
  std::vector<CollectiveSummary> collectives;  ///< of a predicted steady step
  std::optional<ModuleHooks> hooks;            ///< alike; none: there are none
  std::vector<OutsideItem> outside;
  std::vector<MemoryAllowance> allowances;  ///< of a prediction: see traces/memory_fit.h
  std::optional<OutOfMemorySummary> out_of_memory;
  std::optional<PipelineSummary> pipeline;  ///< of which this is one rank's summary
  bool operator==(const Summary&) const = default;
};

/// Figures of the trace's steady step (`steady_step`), or of the steps that `facts` lists. It fits
/// if no request fails and each listed step's reserved and outside bytes fit.
Summary summarize(const Trace& trace, const RunFacts& facts);

/// JSON with the keys of docs/cli.md; its `schema` is "shardscope.<verb>/1".
std::string to_json(const Summary& summary, std::string_view verb);
/// Written atomically, with a newline at the end.
void write_summary(const Summary& summary, std::string_view verb,
                   const std::filesystem::path& path);
/// Reads what `to_json` writes; keys it does not know are ignored. Throws Error with file, line and
/// key.
Summary read_summary(const std::filesystem::path& path);
Summary parse_summary(std::string_view text, std::string_view file_name);

}  // namespace shardscope
