// ScheduleRecorder: writes down a session's work as a Schedule with its host program.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/pytorch/engine/kernel_scratch.h"
#include "core/pytorch/engine/module.h"
#include "core/pytorch/engine/observer.h"
#include "core/pytorch/runtimes/common/process_group.h"
#include "core/pytorch/runtimes/record/operator_work.h"
#include "core/pytorch/runtimes/record/program_writer.h"
#include "core/pytorch/runtimes/record/shape_table.h"
#include "core/schedule/schedule.h"

namespace shardscope::eager {

/// Called when the program has grown, before the host goes on: it may throw, and so end the work
/// that is recorded.
class ProgramListener {
 public:
  virtual ~ProgramListener() = default;
  virtual void on_program(const Schedule& so_far) = 0;
};

/// Observes a session from before its model is made. What runs before the first step is set-up. On
/// the way: kernels, collectives and copies become operations; storages of the GPU and what kernels
/// take beside them become buffers; all that the host does with them, and with streams and events,
/// becomes rows of the host program.
class ScheduleRecorder final : public Observer {
 public:
  /// `place` is where the session's model lives. Of the CPU kernels take nothing beside their
  /// outputs, as far as it is known.
  explicit ScheduleRecorder(KernelDevice device = {}, Device place = Device::cuda);

  /// Names the groups of collectives: "world", "shard", as the runtime uses them.
  void name_group(const ProcessGroup& group, std::string name);
  /// What is in the model by now: P, and its buffers, by name. Call it when the model is made.
  void name_model(Module& root);
  void name_buffer(const Tensor& tensor, MemoryCategory category, std::string_view name);
  void set_category(const Tensor& tensor, MemoryCategory category);
  void listen(ProgramListener& listener) { listener_ = &listener; }
  /// Schedule::shapes are for readers alone.
  void leave_out_shapes() { notes_shapes_ = false; }

  /// A step of the loop begins.
  void begin_step(std::string label);
  void begin_phase(Phase phase, int micro_batch);
  /// Gradients as they are now: their storages are G.
  void note_gradients(const Tensors& parameters);
  void end_step();
  /// Writes the last step down once more, see repeat_last_step. Nothing can be recorded after it.
  bool repeat_step(std::string label);

  const Schedule& schedule() const { return schedule_; }
  /// Closes what is pending, once, after the last work. Strategy, workload, rank and world are the
  /// caller's to fill in.
  Schedule finish();
  /// Writes down what was told so far; otherwise the last storages may be waiting for the operator
  /// that they belong to.
  void catch_up();

  void on_operator(Session& s, const OperatorCall& call) override;
  void on_storage_allocated(Session& s, StorageImpl& storage) override;
  void on_storage_freed(Session& s, StorageImpl& storage) override;
  void on_storage_resized(Session& s, StorageImpl& storage, Bytes before) override;
  void on_node_begin(Session& s, Node& node) override;
  void on_node_end(Session& s, Node& node) override;
  void on_collective(Session& s, const CollectiveCall& call) override;
  void on_work_wait(Session& s, WorkId work, StreamId waiting) override;
  void on_record_stream(Session& s, StorageImpl& storage, StreamId stream) override;
  void on_event_record(Session& s, EventId event, StreamId stream) override;
  void on_event_wait(Session& s, EventId event, StreamId waiting) override;
  void on_stream_wait(Session& s, StreamId waiting, StreamId of) override;
  void on_host_wait(Session& s, EventId event) override;
  void on_host_sync(Session& s) override;
  void on_cache_emptied(Session& s) override;
  void on_module_hook(Session& s, std::string_view name) override;
  void on_mark(Session& s, const Mark& mark) override;
  void on_repeat_begin(Session& s, std::uint32_t times) override;
  void on_repeat_end(Session& s) override;

 private:
  using LaneIndex = ProgramWriter::LaneIndex;
  struct Owner {
    OwnerId module;
    UnitId unit;
  };
  /// What is known of an operator from its name.
  struct Known {
    std::uint32_t name = 0;
    ScratchRule scratch = nullptr;
    bool issues = true;  ///< to the device, by itself
    OperatorTrait trait;
  };
  /// A storage that the operator that is running may have made.
  struct Asked {
    std::uint64_t storage = 0;
    Bytes bytes;  ///< of all copies
    std::uint32_t copies = 1;
    LaneIndex lane = 0;
    MemoryCategory category = MemoryCategory::temporaries;
    std::optional<std::uint32_t> name;  ///< absent: that of the operator
    Owner owner;
  };

  const Known& known(const Operator& op);
  std::uint32_t intern(std::string_view name);
  LaneIndex lane_of(const Session& s, StreamId stream);
  LaneIndex nccl_lane(GroupId group, OperationKind kind);
  bool joins_last_transfer(OperationKind kind, LaneIndex lane) const;
  /// The other rank of a transfer; -1: not known.
  int peer_of(const CollectiveCall& call) const;
  std::uint32_t intern(const Collective& collective);
  std::uint32_t intern(const DeviceWork& work);
  Owner owner_of(const Session& s);
  UnitId unit_of(const std::string* name);
  void fill_units();
  void grown();
  bool on_device(const StorageImpl& storage) const { return storage.device() == place_; }
  bool on_device(const TensorImpl* tensor) const { return on_device(*tensor->storage); }

  /// Of what a runtime says is parameters beside the model's own; otherwise operators give names.
  std::optional<std::uint32_t> name_of_tag(const StorageTag& tag);
  void ask(Session& s, const StorageImpl& storage);
  BufferId add_buffer(Buffer buffer);
  void allocate(const Asked& asked);
  void allocate_outputs(const OperatorCall& call, bool outputs);
  void let_go(const StorageImpl& storage, BufferId id);
  void free(BufferId id);
  BufferId& buffer_of(std::uint64_t storage);
  Buffer* buffer_under(const Tensor& tensor);
  MemoryCategory category_now(const Session& s) const;
  void become_communication(const TensorImpl& tensor);

  void add_operand(const TensorImpl& tensor, Access access, Bytes bytes);
  IndexRange add_operands(const OperatorCall& call, const OperatorTrait& trait);
  Operation operation_now(const Session& s, std::uint32_t name, LaneIndex lane);
  bool takes_host_time(const OperatorCall& call, const OperatorTrait& trait) const;
  void compute_on_host(const Session& s, const DeviceWork& work);
  void launch(const Session& s, const OperatorCall& call, const OperatorTrait& trait,
              LaneIndex lane);
  void play(const Session& s, const OperatorCall& call, const OperatorTrait& trait, LaneIndex lane);

  Schedule schedule_;
  ProgramWriter writer_;
  KernelDevice device_;
  Device place_;
  ShapeTable shapes_;
  bool notes_shapes_ = true;
  ProgramListener* listener_ = nullptr;

  std::unordered_map<const Operator*, Known> operators_;
  /// Those looked up last, by address.
  struct Near {
    const Operator* op = nullptr;
    const Known* known = nullptr;
  };
  std::array<Near, 256> near_;
  std::unordered_map<std::string, std::uint32_t> names_;
  std::unordered_map<DeviceWork, std::uint32_t, DeviceWorkHash> device_works_;
  /// Those looked up last, by bytes and flops.
  std::array<std::uint32_t, 256> near_works_{};
  std::unordered_map<const Module*, OwnerId> owners_;
  /// Neighbours have the same owner.
  struct LastOwner {
    const Module* module = nullptr;
    const std::string* unit = nullptr;
    Owner owner = {};
  };
  LastOwner last_;
  std::unordered_map<const std::string*, UnitId> units_;  ///< by Session::unit
  std::vector<int> lanes_;             ///< by stream of the session; -1: none yet
  std::vector<int> nccl_lanes_;        ///< by group; -1: none yet
  std::vector<BufferId> live_;         ///< by storage
  std::vector<std::uint32_t> works_;   ///< by asynchronous collective: the event behind it
  std::vector<std::uint32_t> events_;  ///< by event of the session
  std::vector<Asked> asked_;           ///< since the last other call
  ScratchPlan plan_;
  std::vector<BufferId> pieces_;

  Phase phase_ = Phase::init;
  std::int16_t micro_batch_ = 0;
  const Module* module_ = nullptr;      ///< of the node of backward that runs
  std::uint32_t allocating_ = 0;        ///< name of the operator that takes storages
  std::uint32_t times_ = 1;             ///< that what is told is done
  std::optional<LaneIndex> host_lane_;  ///< where the host has computed
  bool step_open_ = false;
};

}  // namespace shardscope::eager
