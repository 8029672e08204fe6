// Builds a schedule: operations are added in issue order, dependencies and lifetimes follow from
// what they use.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope {

/// Collects operations, then derives the dependencies between streams and the life of every buffer.
///
/// Dependencies: an operation waits for the last writer of what it reads, and for the readers of
/// what it writes, where those are on other streams; what is implied by stream order or by an
/// earlier wait is left out. An operation of another stream that allocates a buffer also waits for
/// the compute operation issued before it, so that memory freed by then is free. Lifetimes: a
/// buffer lives from the first operation that uses it until the first operation of the compute
/// stream by whose end all its uses are known to have ended.
class ScheduleBuilder {
 public:
  struct Label {
    std::string name;
    OperationKind kind = OperationKind::compute;
    Stream stream = Stream::compute;
    Phase phase = Phase::forward;
    int micro_batch = 0;
    UnitId unit;
    bool recomputed = false;
  };

  explicit ScheduleBuilder(Schedule start) : schedule_(std::move(start)) {}

  const Schedule& schedule() const { return schedule_; }
  Schedule& schedule() { return schedule_; }

  enum class Life : std::uint8_t { from_use, persistent };
  BufferId add_buffer(const std::string& name, MemoryCategory category, Bytes bytes,
                      UnitId unit = {}, Life life = Life::from_use);
  /// In the host's memory; persistent.
  BufferId add_host_buffer(const std::string& name, MemoryCategory category, Bytes bytes,
                           UnitId unit = {});
  GroupId add_group(const Group& group);

  Operand whole(BufferId buffer, Access access) const {
    return {buffer, {}, schedule_.at(buffer).bytes, access};
  }
  /// Consecutive elements of a buffer.
  struct Elements {
    Dtype dtype = Dtype::float32;
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  static Operand part(BufferId buffer, const Elements& elements, Access access);

  OperationId add_kernel(const Label& label, const Kernel& kernel,
                         const std::vector<Operand>& operands,
                         const std::vector<Slice>& slices = {});
  OperationId add_collective(const Label& label, const Collective& collective,
                             const std::vector<Operand>& operands);
  /// Between the device's memory and the host's, on the copy stream.
  OperationId add_copy(Label label, const Operand& from, const Operand& to);
  /// Nothing runs; the compute stream waits for `operations`.
  OperationId add_wait(const Label& label, const std::vector<OperationId>& operations);

  /// Closes the step: waits for all streams, derives dependencies and lifetimes.
  Schedule finish();

 private:
  Operation& start(const Label& label);
  OperationId commit(const std::vector<Operand>& operands);
  std::uint32_t intern(const std::string& name);
  std::uint32_t intern(const Kernel& kernel);
  std::uint32_t intern(const Collective& collective);
  void derive_dependencies();
  void derive_lifetimes();

  /// By stream: the last operation known to have ended when this one starts, as index + 1; 0: none.
  using Clock = std::array<std::uint32_t, stream_count>;

  Schedule schedule_;
  std::unordered_map<std::string, std::uint32_t> name_index_;
  std::vector<std::vector<OperationId>> asked_waits_;  // by operation
  std::vector<Clock> clocks_;
};

}  // namespace shardscope
