// ProgramWriter: rows of a host program, and the operations' dependencies that follow from them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope {

/// Appends to a schedule's host program. Operations that a lane launches come after those that its
/// events let through: `Operation::after` follows from waits.
class ProgramWriter {
 public:
  /// The schedule must outlive the writer.
  explicit ProgramWriter(Schedule& schedule) : schedule_(schedule) {}

  using LaneIndex = std::uint8_t;
  LaneIndex add_lane(const Lane& lane);

  void add(HostActionKind kind, LaneIndex lane, std::uint32_t subject) {
    schedule_.program.actions.push_back({kind, lane, subject});
  }
  /// The operation's `after` is set here.
  OperationId launch(LaneIndex lane, Operation operation) {
    return issue(HostActionKind::launch, lane, operation);
  }
  /// The same in front of the lane's event that is the last row: it is of both then.
  OperationId launch_before_event(LaneIndex lane, Operation operation);
  /// What the host does itself, on a lane of its own.
  OperationId run(LaneIndex lane, Operation operation) {
    return issue(HostActionKind::run, lane, operation);
  }
  /// The event's number.
  std::uint32_t record_event(LaneIndex lane);
  void wait_event(LaneIndex lane, std::uint32_t event);

  /// What is added from here to end_repeat is done `times` times; nothing is, where nothing is
  /// added.
  void begin_repeat(std::uint32_t times) { add(HostActionKind::repeat, 0, times); }
  void end_repeat();

  /// Makes room for `steps` more steps, each like the one so far.
  void expect_more(std::size_t steps);

  std::uint32_t next_action() const {
    return static_cast<std::uint32_t>(schedule_.program.actions.size());
  }
  std::uint32_t next_operation() const {
    return static_cast<std::uint32_t>(schedule_.operations.size());
  }

 private:
  /// By lane: the last operation of it that comes before a point, as index + 1; 0: none.
  using Before = std::vector<std::uint32_t>;
  struct LaneState {
    Before asked;     ///< by waits so far
    Before attached;  ///< to an operation already
    bool waits = false;
  };
  static void raise(Before& to, const Before& other);
  OperationId issue(HostActionKind kind, LaneIndex lane, Operation operation);

  Schedule& schedule_;
  std::vector<LaneState> lanes_;
  std::vector<Before> events_;
};

}  // namespace shardscope
