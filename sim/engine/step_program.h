// StepProgram: one step of a host program in the compact form that the event engine plays, made
// once and played many times with other costs. No memory, no names: launches, waits that matter,
// and the host's own time.
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/schedule.h"
#include "sim/engine/sharing.h"

namespace shardscope {

/// What the host has launched, dispatched and run of modules' hooks, and how many launches and
/// dispatches were of autograd's backward.
struct HostCounts {
  std::uint32_t launches = 0;
  std::uint32_t dispatches = 0;
  std::uint32_t backward_launches = 0;
  std::uint32_t backward_dispatches = 0;
  std::uint32_t hooks = 0;
  void launch(bool backward) {
    ++launches;
    backward_launches += backward ? 1 : 0;
  }
  void dispatch(bool backward, std::uint32_t times) {
    dispatches += times;
    backward_dispatches += backward ? times : 0;
  }
};

/// Whether autograd's engine issues the operation: not what is run again of a forward.
inline bool is_of_autograd(const Operation& op) {
  return op.phase == Phase::backward && !op.recomputed;
}

/// Rows of a lane follow each other in order of issue.
struct LaneItem {
  enum class Kind : std::uint8_t {
    operation,
    record,        ///< event `subject` has happened when the lane is here
    wait,          ///< for event `subject` of this step
    wait_previous  ///< for event `subject` of the step before
  };
  Kind kind = Kind::operation;
  Share share = Share::alone;  ///< of operations
  bool copies = false;         ///< an operation that counts as a copy
  bool on_host = false;        ///< an operation that the host thread runs itself
  std::uint32_t segment = 0;   ///< of the host's work, in which it is issued
  std::uint32_t subject = 0;   ///< class of operations that take as long, or event
  std::uint32_t turn = 0;      ///< of a step's collectives, in order of issue
  std::uint32_t group = 0;     ///< of collectives: the communicator
  /// Among the step's collectives of the communicator; of a program that grows, which has no steps,
  /// among all of the channel, and set by the engine.
  std::uint32_t turn_in_group = 0;
  HostCounts host;  ///< since the segment's beginning, this one included
};

/// A stretch of the host's work, which it does without looking at the device, and what it waits for
/// at its end.
struct HostSegment {
  static constexpr std::uint32_t no_event = ~std::uint32_t{0};
  HostCounts host;
  std::uint32_t event = no_event;  ///< none: the host goes on
  bool previous = false;           ///< the event is of the step before
};

/// A step that follows itself.
struct StepProgram {
  std::vector<LaneItem> items;
  std::vector<IndexRange> lanes;      ///< of items
  std::vector<HostSegment> segments;  ///< at least one
  std::uint32_t events = 0;
  /// Plays until a step is the one that repeats: 1 where the host waits for the end of each.
  int repetitions_to_steady = 1;
  std::uint32_t collectives = 0;
  std::vector<std::uint32_t> collectives_of_group;  ///< by group
  std::vector<OperationId> examples;  ///< of every class of operations; `LaneItem::subject`

  std::size_t operations() const;
};

/// Of the last step of a schedule with a host program, the one that repeats. More than
/// `told_micro_batches` (sim/engine/step_rows.h) may be asked for where so many are recorded; 0: as
/// recorded. Throws Error where there are no steps or no such micro-batch.
StepProgram step_program(const Schedule& schedule, int micro_batches = 0);

}  // namespace shardscope
