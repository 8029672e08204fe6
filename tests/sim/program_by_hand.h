// Small host programs, written action by action.
#pragma once

#include <string>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope::testing {

/// Writes a schedule of one step, "steady". Lane 0 is "compute"; others are added by name.
class ProgramByHand {
 public:
  ProgramByHand();

  std::uint8_t lane(const std::string& name, Stream stream);
  /// An operation of PyTorch's that takes this long on `second_machine`: one byte a nanosecond.
  OperationId launch(std::uint8_t lane, std::int64_t ns,
                     OperationKind kind = OperationKind::compute);
  /// A collective of communicator `group`, 0 or 1.
  OperationId launch_in(std::uint8_t lane, std::int64_t ns, OperationKind kind,
                        std::uint32_t group);
  void dispatch() { add(HostActionKind::dispatch, 0, 0); }
  void hook() { add(HostActionKind::hook, 0, 0); }
  BufferId allocate(std::uint8_t lane, Bytes bytes,
                    MemoryCategory category = MemoryCategory::activations);
  /// What is written from here to `again` is done `times` times; what it allocates has as many
  /// blocks.
  void repeat(std::uint32_t times);
  void again();
  void free(BufferId buffer) { add(HostActionKind::free, 0, buffer.value); }
  void record_stream(std::uint8_t lane, BufferId buffer) {
    add(HostActionKind::record_stream, lane, buffer.value);
  }
  std::uint32_t record(std::uint8_t lane);
  void wait(std::uint8_t lane, std::uint32_t event) {
    add(HostActionKind::wait_event, lane, event);
  }
  void host_wait(std::uint32_t event) { add(HostActionKind::host_wait, 0, event); }
  void host_sync(std::uint8_t lane) { add(HostActionKind::host_sync, lane, 0); }
  /// What comes from here on is a step.
  void begin_step(const std::string& label);

  Schedule finish();

 private:
  void add(HostActionKind kind, std::uint8_t lane, std::uint32_t subject);
  void end_step();

  Schedule schedule_;
  std::uint32_t times_ = 1;
};

}  // namespace shardscope::testing
