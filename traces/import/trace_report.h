// What imported traces amount to: what `shardscope report` shows (docs/cli.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "traces/import/classification.h"
#include "traces/import/collectives.h"
#include "traces/import/idle_causes.h"
#include "traces/import/import.h"
#include "traces/import/imported_trace.h"
#include "traces/import/matched_collectives.h"
#include "traces/import/memory_report.h"

namespace shardscope {

/// One device of a rank; one without a device has its host's figures: operators of the host count
/// as compute, the transport's calls ("gloo:", "nccl:") as communication.
struct RankReport {
  std::int64_t rank = 0;               ///< of the file, else its place among the files
  std::optional<std::int64_t> device;  ///< none: the host
  std::string file;
  Accounting time;  ///< by the chosen definitions; the parts sum to time.span
  Duration copies;
  std::int64_t events = 0;       ///< of the device (or the host)
  std::int64_t streams = 0;      ///< of the device, or threads
  std::int64_t overlapping = 0;  ///< events that start before an earlier one of their stream ends
  /// Of the device's memory snapshot, else of the profiler's [memory] events, which do not tell
  /// what is active.
  std::optional<Bytes> peak_allocated, peak_active, peak_reserved;
};

/// Communication of one process group on one rank.
struct GroupReport {
  std::int64_t rank = 0;
  std::string group;  ///< "" where the trace does not say
  std::int64_t collectives = 0;
  Duration communication;          ///< length of the union of its collectives
  Duration exposed_communication;  ///< of it, without any compute
};

/// Why a device or a stream of it was idle.
struct IdleReport {
  std::int64_t rank = 0;
  std::int64_t device = 0;
  IdleTime idle;
};

struct RankCollective {
  std::int64_t rank = 0;
  ImportedCollective collective;
};

struct FileReport {
  std::string file;
  ImportReport report;
};

struct TraceReport {
  Definitions definitions = Definitions::own;
  std::vector<RankReport> ranks;
  std::vector<GroupReport> groups;  ///< by rank, then first collective
  std::vector<IdleReport> idle;
  std::vector<RankCollective> collectives;
  MatchedCollectives matched;        ///< of all ranks; empty for one
  std::vector<MemoryReport> memory;  ///< of snapshots and timelines
  std::vector<FileReport> imports;
  std::vector<std::string> left_out;  ///< files, with the reason
};

/// What a report goes by, beside the classes that events have.
struct ReportRules {
  Definitions definitions = Definitions::own;
  Duration kernel_gap = default_kernel_gap;
  FrameRules memory = frame_rules();
};

/// The traces must be classified by rules of the same definitions. HTA and TraceLens take all
/// devices of a file for one; HTA has no exposed communication and copies: its "non-compute" is
/// their sum here.
TraceReport report_of(const std::vector<ImportedTrace>& traces, const ReportRules& rules = {});

/// The same with memory snapshots and timelines. A snapshot is of the rank that its name says
/// ("rank3"), or, where there is one trace only, of that.
TraceReport report_of(const Imported& imported, const ReportRules& rules = {});

/// `report --json` with the schema shardscope.report/1.
std::string to_json(const TraceReport& report);

}  // namespace shardscope
