// What a recorded process put on its streams, as operations with their work.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/pytorch/runtimes/record/program_writer.h"
#include "core/recording/event_log.h"
#include "core/recording/recorded_streams.h"
#include "core/recording/recorded_threads.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// Launches of kernels.
struct LaunchCounts {
  std::int64_t all = 0;
  std::int64_t of_no_operator = 0;  ///< among them
};

class RecordedWork {
 public:
  /// All of them must outlive this.
  RecordedWork(const EventLog& log, Schedule& schedule, ProgramWriter& writer, RecordedNames& names,
               RecordedStreams& streams, RecordedThreads& threads)
      : log_(log),
        schedule_(schedule),
        writer_(writer),
        names_(names),
        streams_(streams),
        threads_(threads) {}

  /// Of lines of these kinds; `end` says what its call's kernels did.
  void end(const LogLine& line);
  void make_views(const LogLine& line);
  void launch_kernel(const LogLine& line);
  void launch_product(const LogLine& line);
  void copy(const LogLine& line);
  void communicate(const LogLine& line);
  void announce_group(const LogLine& line) { next_group_ = std::string(line.text(0)); }
  void make_communicator(const LogLine& line);

  const LaunchCounts& launches() const { return launches_; }

 private:
  using LaneIndex = ProgramWriter::LaneIndex;

  /// `launches` on the device, or `on_host`.
  static constexpr int on_host = 0;
  std::uint32_t work_of_call(const RunningCall& call, std::int64_t outputs, int launches);
  bool takes_host_time(const LogLine& end, const RunningCall& call) const;
  void compute_on_host(const LogLine& end, const RunningCall& call);
  /// What a copy between the host and the device moves over the link, and the driver's buffer on
  /// the way where the host's memory is not locked.
  IndexRange moved_operands(Bytes bytes, Access access, bool is_pageable);
  std::uint32_t shapes_of(const RunningCall& call);
  Operation operation_of(RecordedThread& thread, std::uint32_t name, OperationKind kind) const;
  std::uint32_t put(LaneIndex lane, const Operation& operation);
  /// Kind of what a kernel does.
  OperationKind compute_kind() const;
  /// The call whose work a kernel does; null: none.
  RunningCall* call_of_kernel(RecordedThread& thread) const;

  const EventLog& log_;
  Schedule& schedule_;
  ProgramWriter& writer_;
  RecordedNames& names_;
  RecordedStreams& streams_;
  RecordedThreads& threads_;
  LaunchCounts launches_;
  /// More than the longest log had, one by one.
  std::int64_t views_left_ = std::int64_t{1} << 26;
  /// Index of `Schedule::works` by name, texts of inputs and outputs, launches, and whether
  /// cuBLAS was asked for its product.
  std::map<std::tuple<std::uint32_t, std::int64_t, std::int64_t, int, bool>, std::uint32_t> works_;
  std::map<std::int64_t, std::uint32_t> shapes_;  ///< of `Schedule::shapes`, by text of inputs
  std::map<LaneIndex, std::uint32_t> last_on_lane_;
  std::map<std::int64_t, GroupId> groups_;  ///< by communicator
  std::string next_group_;
  std::optional<LaneIndex> host_lane_;
};

}  // namespace shardscope
