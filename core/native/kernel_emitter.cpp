#include "core/native/kernel_emitter.h"

#include <utility>

namespace shardscope {
namespace {

std::size_t slot_index(const Unit& unit, ParameterId parameter) {
  return static_cast<std::size_t>(&slot_of(unit, parameter) - unit.slots.data());
}

}  // namespace

ScheduleBuilder::Label label_at(const StepPlace& place, std::string name, OperationKind kind,
                                Stream stream) {
  return {.name = std::move(name),
          .kind = kind,
          .stream = stream,
          .phase = place.phase,
          .micro_batch = place.micro_batch,
          .unit = place.unit};
}

KernelEmitter::KernelEmitter(const NativeStep& step, NativeStorage& storage,
                             ScheduleBuilder& builder)
    : step_(step), storage_(storage), builder_(builder), tables_(step.graph.values.size()) {}

void KernelEmitter::emit_setup() {
  for (const Operator& op : step_.graph.setup) {
    const ValueId table = op.operands[0].value;
    const Value& value = step_.graph.values[table.value];
    tables_[table.value] = builder_.add_buffer(value.name, MemoryCategory::inputs, value.bytes, {},
                                               ScheduleBuilder::Life::persistent);
    emit(op, {.unit = UnitId::of(0), .phase = Phase::init});
  }
}

void KernelEmitter::emit(const Operator& op, const StepPlace& place) {
  Kernel kernel = op.kernel;
  settle_accumulation(op, kernel, place);
  std::vector<Operand> operands;
  operands.reserve(op.operands.size() + 1);
  for (const GraphOperand& one : op.operands) operands.push_back(operand(one, place));
  operands.push_back(workspace(kernel));
  std::string name = op.name + " " + std::string(name_of(kernel.kind()));
  if (op.recomputed) name += " again";
  ScheduleBuilder::Label label = label_at(place, std::move(name));
  label.recomputed = op.recomputed;
  builder_.add_kernel(label, kernel, operands);
}

Operand KernelEmitter::workspace(const Kernel& kernel) {
  const Bytes bytes = step_.target.workspace ? step_.target.workspace(kernel) : Bytes{};
  if (bytes.count == 0) return {};
  const BufferId scratch = builder_.add_buffer("workspace", MemoryCategory::workspace, bytes);
  return builder_.whole(scratch, Access::read_write);
}

Operand KernelEmitter::operand(const GraphOperand& operand, const StepPlace& place) {
  if (!operand.value) return {};
  const Value& value = step_.graph.values[operand.value.value];
  Operand base;
  switch (value.role) {
    case ValueRole::input:
      base = {.buffer = value.name == "tokens" ? storage_.tokens : storage_.targets,
              .offset = value.bytes * place.micro_batch};
      break;
    case ValueRole::loss:
      base.buffer = storage_.loss;
      break;
    case ValueRole::table:
      base.buffer = tables_[operand.value.value];
      break;
    case ValueRole::parameter:
    case ValueRole::parameter_gradient:
      base = parameter_operand(value);
      break;
    case ValueRole::activation:
    case ValueRole::gradient:
      base.buffer = buffer_of(operand.value, place);
      break;
  }
  return {base.buffer, base.offset + operand.offset, operand.bytes, operand.access};
}

Operand KernelEmitter::parameter_operand(const Value& value) const {
  const UnitId unit = step_.plan.unit_of_parameter[value.parameter.value];
  const UnitState& state = storage_.units[unit.value];
  const std::int64_t elements = slot_of(step_.unit(unit), value.parameter).offset;
  if (value.role == ValueRole::parameter_gradient)
    return {.buffer = state.unsharded_gradients,
            .offset = bytes_of(elements, step_.dtypes.gradients)};
  return {.buffer = step_.sharding.parameters ? state.unsharded : state.parameters,
          .offset = bytes_of(elements, step_.dtypes.compute)};
}

BufferId KernelEmitter::buffer_of(ValueId id, const StepPlace& place) {
  std::vector<BufferId>& values = values_[place.micro_batch];
  values.resize(step_.graph.values.size());
  BufferId& buffer = values[id.value];
  if (buffer) return buffer;
  const Value& value = step_.graph.values[id.value];
  const auto category = value.role == ValueRole::activation ? MemoryCategory::activations
                                                            : MemoryCategory::temporaries;
  buffer = builder_.add_buffer(value.name, category, value.bytes, place.unit);
  return buffer;
}

/// Decides whether a kernel adds to the parameter gradients it writes. Where it adds to one and
/// would be the first to write another (GPT-2's tied embedding and its positions), the other is
/// cleared first.
void KernelEmitter::settle_accumulation(const Operator& op, Kernel& kernel,
                                        const StepPlace& place) {
  std::vector<ParameterId> fresh;
  bool adds = false;
  for (const GraphOperand& operand : op.operands) {
    if (!operand.value) continue;
    const Value& value = step_.graph.values[operand.value.value];
    if (value.role != ValueRole::parameter_gradient) continue;
    std::vector<bool>& written = storage_.units[place.unit.value].written;
    const std::size_t slot = slot_index(step_.unit(place.unit), value.parameter);
    if (written[slot])
      adds = true;
    else
      fresh.push_back(value.parameter);
    written[slot] = true;
  }
  kernel.visit([adds](auto& k) {
    if constexpr (requires { k.accumulate; }) k.accumulate = adds;
  });
  if (!adds) return;
  for (const ParameterId parameter : fresh) clear_gradient(place, parameter);
}

void KernelEmitter::clear_gradient(const StepPlace& place, ParameterId id) {
  const Parameter& parameter = step_.model.parameters[id.value];
  const Dtype dtype = step_.dtypes.gradients;
  const ScheduleBuilder::Elements all{dtype, slot_of(step_.unit(place.unit), id).offset,
                                      parameter.elements()};
  const BufferId gradients = storage_.units[place.unit.value].unsharded_gradients;
  builder_.add_kernel(label_at(place, parameter.name + " clear gradient"),
                      FillZeroKernel{.dtype = dtype, .elements = all.count},
                      {ScheduleBuilder::part(gradients, all, Access::write), {}});
}

void KernelEmitter::clear_unwritten_gradients(const StepPlace& place) {
  const Unit& unit = step_.unit(place.unit);
  const UnitState& state = storage_.units[place.unit.value];
  for (std::size_t slot = 0; slot < unit.slots.size(); ++slot) {
    if (!state.written[slot]) clear_gradient(place, unit.slots[slot].parameter);
  }
}

}  // namespace shardscope
