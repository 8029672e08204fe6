// Gathers and reductions of a native step on the buffers of a schedule.
#pragma once

#include <deque>

#include "core/native/kernel_emitter.h"
#include "core/native/native_step.h"
#include "core/schedule/schedule_builder.h"

namespace shardscope {

/// Everything must outlive it.
class CommunicationEmitter {
 public:
  CommunicationEmitter(const NativeStep& step, NativeStorage& storage, ScheduleBuilder& builder)
      : step_(step), storage_(storage), builder_(builder) {}

  /// Gathers the unit and, if there is one, that of the same modules' frozen parameters.
  void gather(const StepPlace& place);
  /// What `gather` gathered may go.
  void release(UnitId unit);
  void begin_gradients(const StepPlace& place);
  void reduce(const StepPlace& place);
  /// Compute waits for the oldest reduction; its unsharded gradient is free from here on.
  void await_reduction(const StepPlace& place);
  void reduce_loss();
  /// Between stages, of `buffer`.
  void transfer(const StageTransfer& transfer, const StepPlace& place, BufferId buffer);

 private:
  /// A reduction that was issued and not yet waited for.
  struct InFlight {
    OperationId last;
    BufferId to_add;  ///< a later micro-batch's reduced shard, to be added to the unit's gradients
  };
  UnitState& state(UnitId id) { return storage_.units[id.value]; }
  void gather_unit(const StepPlace& place);
  void copy_gradients_to_host(const StepPlace& place);
  OperationId reduce(const StepPlace& place, OperationKind kind, const Collective& collective,
                     const std::vector<Operand>& operands);
  void reduce_scatter_to_shard(const StepPlace& place);
  void reduce_in_place(const StepPlace& place);
  void sum_shared_embedding(const StepPlace& place);
  GroupId group_of_stages(int stage, int other) const;

  const NativeStep& step_;
  NativeStorage& storage_;
  ScheduleBuilder& builder_;
  std::deque<InFlight> in_flight_;
};

}  // namespace shardscope
