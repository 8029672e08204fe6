// Operators of a native step as kernels on the buffers of a schedule.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/native/native_step.h"
#include "core/native/visits.h"
#include "core/schedule/schedule_builder.h"

namespace shardscope {

/// Where in the step an operation stands.
struct StepPlace {
  UnitId unit;
  int micro_batch = 0;
  Phase phase = Phase::forward;
};

ScheduleBuilder::Label label_at(const StepPlace& place, std::string name,
                                OperationKind kind = OperationKind::compute,
                                Stream stream = Stream::compute);

/// Makes buffers for the graph's values as kernels come to them. Everything must outlive it.
class KernelEmitter {
 public:
  KernelEmitter(const NativeStep& step, NativeStorage& storage, ScheduleBuilder& builder);

  /// What runs once, before the first step.
  void emit_setup();
  void emit(const Operator& op, const StepPlace& place);
  /// The buffer of a value of that micro-batch.
  BufferId buffer_of(ValueId value, const StepPlace& place);
  /// Gradients of the unit that nothing has written become 0.
  void clear_unwritten_gradients(const StepPlace& place);

 private:
  Operand operand(const GraphOperand& operand, const StepPlace& place);
  Operand parameter_operand(const Value& value) const;
  void settle_accumulation(const Operator& op, Kernel& kernel, const StepPlace& place);
  void clear_gradient(const StepPlace& place, ParameterId parameter);
  Operand workspace(const Kernel& kernel);

  const NativeStep& step_;
  NativeStorage& storage_;
  ScheduleBuilder& builder_;
  std::vector<BufferId> tables_;                 // by graph value
  std::map<int, std::vector<BufferId>> values_;  // by micro-batch, graph value
};

}  // namespace shardscope
