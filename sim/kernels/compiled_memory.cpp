#include "sim/kernels/compiled_memory.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "sim/kernels/compiled_values.h"
#include "sim/kernels/fusion.h"
#include "sim/kernels/inlined_values.h"
#include "sim/kernels/rematerialization.h"

namespace shardscope {
namespace {

/// Changes to a host program: buffers that it never allocates, and places where others are freed.
class Changes {
 public:
  explicit Changes(const Schedule& schedule)
      : never_(schedule.buffers.size()), freed_after_(schedule.buffers.size(), nowhere) {}

  void leave_out(std::uint32_t b) { never_[b] = true; }
  void free_after(std::uint32_t b, std::size_t place) { freed_after_[b] = place; }

  /// A buffer that the recording did not have.
  struct Added {
    std::uint32_t buffer = 0;
    std::uint8_t lane = 0;
    std::size_t before = 0, after = 0;  ///< places of its allocation and of its end
  };
  void add(const Added& added) { added_.push_back(added); }

  void apply(Schedule& schedule) const {
    const std::vector<HostAction>& actions = schedule.program.actions;
    std::vector<std::vector<HostAction>> moved(actions.size());
    for (const HostAction& action : actions)
      if (action.kind == HostActionKind::free && freed_after_[action.subject] != nowhere)
        moved[freed_after_[action.subject]].push_back(action);
    std::vector<std::vector<HostAction>> asked(actions.size());
    for (const Added& added : added_) {
      asked[added.before].push_back({HostActionKind::allocate, added.lane, added.buffer});
      moved[added.after].push_back({HostActionKind::free, added.lane, added.buffer});
    }
    std::vector<std::uint32_t> before(actions.size() + 1);
    std::vector<HostAction> kept;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      before[i] = static_cast<std::uint32_t>(kept.size());
      kept.insert(kept.end(), asked[i].begin(), asked[i].end());
      if (!goes(actions[i])) kept.push_back(actions[i]);
      kept.insert(kept.end(), moved[i].begin(), moved[i].end());
    }
    before.back() = static_cast<std::uint32_t>(kept.size());
    note_ends(schedule);
    schedule.program.actions = std::move(kept);
    for (Step& step : schedule.steps)
      step.actions = {before[step.actions.begin], before[step.actions.end]};
  }

 private:
  /// Buffers as whoever lists them sees them: those that are never there have no bytes.
  void note_ends(Schedule& schedule) const {
    const auto operation_at = [&](std::size_t place) {
      return OperationId{schedule.program.actions[place].subject};
    };
    for (std::size_t b = 0; b < never_.size(); ++b) {
      if (never_[b]) schedule.buffers[b].bytes = {};
      if (freed_after_[b] != nowhere) schedule.buffers[b].freed_by = operation_at(freed_after_[b]);
    }
    for (const Added& added : added_) {
      schedule.buffers[added.buffer].allocated_by = operation_at(added.before);
      schedule.buffers[added.buffer].freed_by = operation_at(added.after);
    }
  }

  bool goes(const HostAction& action) const {
    switch (action.kind) {
      case HostActionKind::free:
        return never_[action.subject] || freed_after_[action.subject] != nowhere;
      case HostActionKind::allocate:
      case HostActionKind::record_stream:
        return never_[action.subject];
      default:
        return false;
    }
  }

  std::vector<bool> never_;
  std::vector<std::size_t> freed_after_;
  std::vector<Added> added_;
};

/// Of a value that backward makes again: where the last other kernel of forward has read it; none:
/// it is never written out.
std::optional<std::size_t> last_forward_use(const CompiledValues& values, std::uint32_t b) {
  const std::uint32_t own = values.run(values.life(b).uses.front().op);
  std::optional<std::size_t> last;
  for (const ValueUse& use : values.life(b).uses)
    if (!values.is_backward(use.op) && values.run(use.op) != own)
      last = std::max(last.value_or(0), values.end_of(use.op));
  return last;
}

/// Eager PyTorch lets a value go after its last operator; a kernel reads it to its end.
void change(Changes& changes, const CompiledValues& values, const Rematerialization& kept,
            const InlinedValues& inlined, std::uint32_t b) {
  if (values.is_another(b) || inlined.is_inlined(b)) return changes.leave_out(b);
  const std::size_t until = std::max(kept.kept_until(b), inlined.needed_until(b));
  if (until == 0 && values.stays_in_kernel(b)) return changes.leave_out(b);
  std::size_t end = std::max(until, values.last_use(b));
  // The graph's outputs are what its backward reads; there is no cache of a checkpoint.
  if (values.is_kept_unread(b)) return changes.free_after(b, end);
  if (kept.is_recomputed(b)) {
    const std::size_t again = inlined.needed_until(b);
    const std::optional<std::size_t> place = last_forward_use(values, b);
    if (!place && again == 0) return changes.leave_out(b);
    end = std::max(place.value_or(0), again);
  } else if (end <= values.life(b).freed) {
    return;
  }
  changes.free_after(b, end);
}

/// The gradient that a fused kernel leaves for a product.
std::optional<std::uint32_t> written_for_product(const CompiledValues& values, std::uint32_t op) {
  for (std::uint32_t b = 0; b < values.buffers(); ++b) {
    if (!values.is_value(b) || values.is_another(b)) continue;
    const std::vector<ValueUse>& uses = values.life(b).uses;
    const bool by_kernel = values.run(uses.front().op) == values.run(op);
    const bool for_product = std::ranges::any_of(
        uses, [&](const ValueUse& use) { return values.run(use.op) == no_run; });
    if (by_kernel && for_product) return b;
  }
  return {};
}

/// Logits are an output of the graph of which nobody asks a gradient: autograd hands zeros in,
/// which the loss's backward adds to its own. Source: set_materialize_grads of
/// torch.autograd.Function; seen in recordings of Llama, Qwen2 and GPT-NeoX.
void add_unused_gradients(Changes& changes, const CompiledValues& values, Schedule& schedule) {
  for (std::uint32_t op = 0; op < schedule.operations.size(); ++op) {
    if (values.run(op) == no_run || values.place(op) == nowhere) continue;
    if (schedule.name(schedule.operations[op]) != "aten._log_softmax_backward_data.default")
      continue;
    const std::optional<std::uint32_t> made = written_for_product(values, op);
    if (!made) continue;
    Buffer zeros = schedule.buffers[*made];
    zeros.category = MemoryCategory::temporaries;
    changes.add({.buffer = static_cast<std::uint32_t>(schedule.buffers.size()),
                 .lane = zeros.lane,
                 .before = values.place(op),
                 .after = values.end_of(op)});
    schedule.buffers.push_back(zeros);
  }
}

}  // namespace

Schedule with_compiled_memory(Schedule schedule, CompileScope scope) {
  const bool known = scope != CompileScope::none && scope != CompileScope::model_in_parts;
  if (!known) return schedule;
  const CompiledValues values(schedule, scope);
  const Rematerialization kept(values);
  const InlinedValues inlined(values, kept);
  Changes changes(schedule);
  for (std::uint32_t b = 0; b < values.buffers(); ++b)
    if (values.is_value(b)) change(changes, values, kept, inlined, b);
  if (scope == CompileScope::model) add_unused_gradients(changes, values, schedule);
  changes.apply(schedule);
  return schedule;
}

Schedule compiled(Schedule schedule, CompileScope scope) {
  if (scope == CompileScope::none) return schedule;
  return with_kernels(with_compiled_memory(std::move(schedule), scope),
                      {.fusion = KernelFusion::compiled, .scope = scope});
}

}  // namespace shardscope
