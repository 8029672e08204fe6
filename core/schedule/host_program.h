// HostProgram: what the host thread of a training run does, in its order. Times and memory of a run
// follow from it and not from the operations alone: operations are issued by it, blocks are asked
// for when it issues, and come back when events say so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardscope {

enum class Stream : std::uint8_t;

/// A stream as the runtime has it. Several may be one to the user: FSDP1's post-backward and
/// all-reduce streams are both `reduce`.
struct Lane {
  std::string name;  ///< "compute", "pre_unshard", "nccl 0"
  Stream stream;
  /// Of PyTorch's pool of streams, in order of creation; the default stream is in none, and what
  /// NCCL makes for itself owns no memory.
  std::int32_t pool_place = no_pool;
  static constexpr std::int32_t no_pool = -1;
  bool operator==(const Lane&) const = default;
};

/// What the host thread does with the operations of a schedule.
enum class HostRole : std::uint8_t {
  issues,    ///< CUDA: it runs ahead of the device
  computes,  ///< CPU: it runs the kernels itself; a second thread runs the collectives
};

enum class HostActionKind : std::uint8_t {
  launch,         ///< issues `subject`, an operation, to the lane
  run,            ///< issues `subject`, an operation, to the lane and runs it to its end
  dispatch,       ///< runs an operator that issues nothing: a view, an empty tensor
  hook,           ///< runs a runtime's own Python code at one end of a module's pass, `subject` by
                  ///< name: no operator, only time
  allocate,       ///< asks for `subject`, a buffer, as of the lane
  free,           ///< lets `subject` go, a buffer
  record_stream,  ///< the lane uses `subject` too, a buffer of another one
  record_event,   ///< `subject`, an event, is behind what the lane has so far
  wait_event,     ///< what the lane gets from here on comes after `subject`, an event
  host_wait,      ///< the host waits for `subject`, an event
  host_sync,      ///< the host waits for all that the lane has
  empty_cache,    ///< gives back what the allocator holds and nobody uses in `subject`, a private
                  ///< pool (private_pool.h); 0: in the usual one
  mark,           ///< passes `subject`, a mark
  repeat,         ///< does what follows up to `again` `subject` times: dispatches, and allocations
                  ///< and frees of one of a buffer's copies at a time
  again           ///< the end of what is repeated
};

/// One row of the program. `subject` is an index into the table of its kind.
struct HostAction {
  HostActionKind kind = HostActionKind::dispatch;
  std::uint8_t lane = 0;
  std::uint32_t subject = 0;
  bool operator==(const HostAction&) const = default;
};

inline bool issues_operation(HostActionKind kind) {
  return kind == HostActionKind::launch || kind == HostActionKind::run;
}

/// A point that the host passes: the end of a forward, an unshard. Names are the schedule's.
struct HostMark {
  std::uint32_t what = 0;
  std::uint32_t subject = 0;  ///< a module's or unit's name
  std::int32_t number = -1;
  bool operator==(const HostMark&) const = default;
};

/// Events are numbered from 0, each is recorded once.
struct HostProgram {
  std::vector<Lane> lanes;  ///< 0: the default stream
  std::vector<HostAction> actions;
  std::vector<HostMark> marks;
  std::uint32_t events = 0;
};

}  // namespace shardscope
