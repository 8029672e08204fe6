// Walks a schedule for real. On the host, kernels run on the calling thread and collectives on the
// communication thread; on a device with streams, the calling thread queues both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/comm/collective_queue.h"
#include "backend/comm/communicator.h"
#include "backend/device/device.h"
#include "backend/executor/allocation_counter.h"
#include "backend/executor/arena_guard.h"
#include "backend/executor/bound_schedule.h"
#include "backend/executor/live_bytes_counter.h"
#include "backend/executor/memory_marks.h"
#include "backend/executor/probe.h"
#include "backend/executor/step_recorder.h"
#include "backend/executor/stream_order.h"
#include "core/schedule/schedule.h"

namespace shardscope {

struct ExecutorOptions {
  /// Canaries between buffers, poison in dead ranges, live bytes compared with the schedule's at
  /// every operation, allocations inside a step counted. What it finds ends the process with a
  /// message: it is a broken invariant.
  bool check = false;
  /// The times of the operations of the last so many timed steps are kept for the trace.
  std::size_t recorded_steps = 0;
  /// A step that is not timed is captured once and then replayed, where the device can.
  bool use_graph = true;
  /// Where a device that works on the host's memory keeps what is offloaded, in a file without a
  /// name; empty: in memory.
  std::filesystem::path offload_folder = {};
};

/// What the process holds in the arena and beside it.
struct MemoryFacts {
  Bytes arena;
  Bytes pss_before;  ///< proportional set size before the arena was touched
  Bytes pss_after;   ///< now
  Bytes outside;     ///< heap taken since then: the stated rest
};

/// Runs one rank's schedule. All memory of a step lies in one arena of the communicator, laid out
/// when this is constructed; inside a step our code allocates nothing. A lost peer or a failed
/// device is an Error, after which only destruction is left.
class Executor {
 public:
  /// Collective over `world`: every rank constructs an executor of its own rank's schedule.
  /// Prepares all kernels and splits the groups off. `schedule`, `device` and `world` must outlive
  /// the executor.
  Executor(const Schedule& schedule, Device& device, Communicator& world,
           const ExecutorOptions& options);

  /// Memory of a buffer, 64-byte aligned: the device's, or the host's where the schedule says so.
  /// Only persistent buffers mean something between steps.
  std::span<std::byte> bytes(BufferId buffer) const;
  /// The persistent buffer of that name; none if the schedule has none.
  std::optional<BufferId> find(std::string_view name) const;
  /// Copies from or to the start of the persistent buffer `name`, which the schedule must have;
  /// between steps.
  template <class Element>
  void read(std::string_view name, std::span<Element> values) const {
    const BufferId buffer = required(name);
    memory_of(buffer).copy_out(std::as_writable_bytes(values), bytes(buffer).data());
  }
  template <class Element>
  void write(std::string_view name, std::span<const Element> values) const {
    const BufferId buffer = required(name);
    memory_of(buffer).copy_in(bytes(buffer).data(), std::as_bytes(values));
  }
  /// How many elements that buffer has.
  template <class Element>
  std::size_t elements_of(std::string_view name) const {
    return bytes(required(name)).size() / sizeof(Element);
  }
  DeviceMemory& device_memory() const { return device_.memory(); }
  /// The device's memory or the host's, where the buffer lies.
  DeviceMemory& memory_of(BufferId buffer) const {
    return schedule_.at(buffer).on_host ? host_memory() : device_.memory();
  }

  /// Runs the operations of Phase::init: once, before the first step.
  void run_init();
  /// Runs one step; `state.step` counts from 1. When it returns, all of the step has ended on this
  /// rank. The operations of a `timed` step are timed by the device's clock, which on a GPU costs
  /// two marks each; no other step's times are kept.
  void run_step(const StepState& state, bool timed = true);
  /// Runs the caller's own collective between steps, in order with those of the schedule.
  void between_steps(const std::function<void()>& call);

  /// Who hears of all that runs from now on, in this order; each must outlive its use. Between
  /// steps.
  void set_probes(std::vector<Probe*> probes) { probes_ = std::move(probes); }
  const std::vector<Probe*>& probes() const { return probes_; }
  /// Captures the next step that is not timed anew, for probes that want to hear of it.
  void forget_graph() { graph_.reset(); }

  /// Why steps are not replayed though the device could; empty: they are, or it cannot.
  const std::string& why_no_graph() const { return why_no_graph_; }

  /// Live bytes that were handed to each operation when it last ran, by operation id.
  const std::vector<CategoryBytes>& live_bytes() const { return live_; }
  /// Allocations inside steps so far; counted in the checking mode.
  AllocationCounts allocations() const;
  MemoryFacts memory() const;
  Bytes arena_bytes() const { return layout_.size; }
  /// Device memory.
  std::span<const std::byte> arena() const {
    return {arena_->data(), static_cast<std::size_t>(layout_.size.count)};
  }
  /// What the device's memory said while this was constructed, in order.
  const std::vector<MemoryMark>& memory_marks() const { return memory_marks_; }
  const StepRecorder& recorder() const { return recorder_; }
  const Schedule& schedule() const { return schedule_; }

 private:
  /// The operations of one pass, init or a step, with the count of what lives meanwhile.
  struct Pass {
    std::vector<OperationId> operations;
    LiveBytesCounter counter;
    StreamOrder order;
  };

  BufferId required(std::string_view name) const;
  std::byte* address_of(BufferId buffer) const;
  void copy(OperationId id);
  void prepare_kernels();
  void take_arena(Communicator& world);
  Pass make_pass(bool init) const;
  void run(Pass& pass, const StepState& state);
  void walk(Pass& pass, const StepState& state);
  void issue(Pass& pass, OperationId id, const StepState& state);
  void launch_step(const StepState& state, bool timed);
  void walk_step(const StepState& state);
  void capture_step(const StepState& state);
  void issue_queued(Pass& pass, OperationId id, const StepState& state);
  void wait_on_selected(std::span<const std::uint32_t> events);
  void launch_collective(OperationId id);
  void announce(OperationId id) const;
  void run_collective(OperationId id);
  void wait_for_device();
  /// What needs no other rank: a kernel, a copy, or a wait.
  void run_local(OperationId id, const StepState& state);
  void wait_for_dependencies(OperationId id);
  void note_issued(Pass& pass, OperationId id);
  void note_ended(Pass& pass, OperationId id);
  void begin_operation(OperationId id);
  void end_operation(OperationId id);
  void mark(std::size_t place);
  void read_timeline();
  void check_step(std::int64_t step) const;
  [[noreturn]] void broken(std::string_view what) const;

  const Schedule& schedule_;
  Device& device_;
  ExecutorOptions options_;
  GroupCommunicators groups_;
  ArenaLayout layout_;
  MemoryFacts facts_;
  std::vector<MemoryMark> memory_marks_;
  std::unique_ptr<Arena> arena_;
  ArenaLayout host_layout_;
  std::unique_ptr<Arena> host_arena_;  ///< null: nothing is offloaded
  std::optional<BoundSchedule> bound_;
  std::optional<ArenaGuard> guard_;
  Pass init_;
  Pass step_;
  std::vector<CategoryBytes> expected_;  ///< checking mode: by operation
  std::vector<CategoryBytes> live_;
  StepRecorder recorder_;
  std::unique_ptr<DeviceTimeline> timeline_;  ///< of a device that has a clock of its own
  bool timing_ = false;                       ///< the step is timed by it
  std::unique_ptr<DeviceGraph> graph_;        ///< of a step
  std::string why_no_graph_;
  std::vector<Probe*> probes_;
  AllocationCounts compute_allocations_;
  AllocationCounts communication_allocations_;
  Communicator& world_;
  std::vector<CollectiveQueue::Ticket> tickets_;  ///< by operation
  /// Of a device on the host's memory. Last: its thread uses what stands above.
  std::optional<CollectiveQueue> queue_;
};

}  // namespace shardscope
