#include "sim/kernels/compiled_values.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "core/model/module_names.h"
#include "sim/kernels/fusion.h"

namespace shardscope {

CompiledValues::CompiledValues(const Schedule& schedule, CompileScope scope)
    : schedule_(schedule),
      scope_(scope),
      runs_(schedule.operations.size(), no_run),
      places_(schedule.operations.size(), nowhere),
      lives_(schedule.buffers.size()),
      same_as_(schedule.buffers.size()) {
  read_program();
  const std::vector<FusedRun> runs =
      fused_runs(schedule, {.fusion = KernelFusion::compiled, .scope = scope});
  for (const FusedRun& run : runs) {
    for (std::size_t i = 0; i < run.size(); ++i) {
      // Forward and backward are functions of their own.
      if (i == 0 || is_backward(run[i]) != is_backward(run[i - 1])) ends_.emplace_back();
      runs_[run[i]] = static_cast<std::uint32_t>(ends_.size() - 1);
      ends_.back() = places_[run[i]];
    }
  }
  for (std::uint32_t op = 0; op < schedule.operations.size(); ++op) {
    for (const Operand& operand : operands(op))
      if (operand.buffer) lives_[operand.buffer.value].uses.push_back({op, operand.access});
    if (operation(op).recomputed) recomputes_.insert(block_of(op));
  }
  std::iota(same_as_.begin(), same_as_.end(), 0U);
  merge_what_is_the_same();
}

void CompiledValues::read_program() {
  const std::vector<HostAction>& actions = schedule_.program.actions;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (issues_operation(actions[i].kind)) places_[actions[i].subject] = i;
    if (actions[i].kind == HostActionKind::allocate) lives_[actions[i].subject].allocated = i;
    if (actions[i].kind == HostActionKind::free) lives_[actions[i].subject].freed = i;
  }
}

bool CompiledValues::is_value(std::uint32_t buffer) const {
  const Buffer& of = schedule_.buffers[buffer];
  const ValueLife& life = lives_[buffer];
  return !of.on_host && of.copies == 1 && life.allocated != nowhere && life.freed != nowhere &&
         !life.uses.empty() &&
         (of.category == MemoryCategory::activations ||
          of.category == MemoryCategory::temporaries || is_of_functional_collective(buffer));
}

/// What a collective inside of a graph returns: of tensor and context parallelism. Nothing writes
/// it but that, and the graph reads it.
bool CompiledValues::is_of_functional_collective(std::uint32_t buffer) const {
  if (schedule_.buffers[buffer].category != MemoryCategory::communication) return false;
  const std::vector<ValueUse>& uses = lives_[buffer].uses;
  if (!is_collective(operation(uses.front().op).kind)) return false;
  return std::ranges::any_of(uses, [&](const ValueUse& use) {
    return use.access == Access::read && runs_[use.op] != no_run &&
           graph_of(use.op) == graph_of(uses.front().op);
  });
}

std::optional<std::uint32_t> CompiledValues::writer(std::uint32_t buffer) const {
  const std::vector<ValueUse>& uses = lives_[buffer].uses;
  if (uses.front().access != Access::write || runs_[uses.front().op] == no_run) return {};
  for (std::size_t i = 1; i < uses.size(); ++i)
    if (uses[i].access != Access::read && runs_[uses[i].op] != runs_[uses.front().op]) return {};
  return uses.front().op;
}

bool CompiledValues::stays_in_graph(std::uint32_t value) const {
  return std::ranges::all_of(lives_[value].uses,
                             [&](const ValueUse& use) { return graph_of(use.op) == graph(value); });
}

bool CompiledValues::stays_in_kernel(std::uint32_t value) const {
  const std::uint32_t own = run(lives_[value].uses.front().op);
  return own != no_run && std::ranges::all_of(lives_[value].uses, [&](const ValueUse& use) {
           return run(use.op) == own;
         });
}

bool CompiledValues::is_kept_unread(std::uint32_t value) const {
  const std::vector<ValueUse>& uses = lives_[value].uses;
  return recomputes_.contains(block_of(uses.front().op)) && stays_in_graph(value) &&
         last_use(value) < lives_[value].freed &&
         std::ranges::all_of(uses, [&](const ValueUse& use) {
           return operation(use.op).phase == Phase::forward && !operation(use.op).recomputed;
         });
}

std::size_t CompiledValues::last_use(std::uint32_t value) const {
  std::size_t last = 0;
  for (const ValueUse& use : lives_[value].uses) last = std::max(last, end_of(use.op));
  return last;
}

std::string_view CompiledValues::graph_of(std::uint32_t op) const {
  return compiled_graph(schedule_, operation(op), scope_);
}

/// fx_graph_cse: a graph computes what is the same once, over forward and backward. Numbers among
/// an operator's arguments are not known here, which its name and the sizes have to stand for.
bool CompiledValues::is_known_by_operands(std::uint32_t op) const {
  switch (kind(op)) {
    case WorkKind::pointwise:
    case WorkKind::copy:
    case WorkKind::fill:
    case WorkKind::reduction:
      return true;
    default:
      return false;
  }
}

/// What activation checkpointing runs again is never taken from the first forward.
void CompiledValues::merge_what_is_the_same() {
  using Key = std::tuple<std::uint32_t, std::string_view, bool, std::vector<std::int64_t>>;
  std::map<Key, std::uint32_t> first;
  for (std::uint32_t op = 0; op < schedule_.operations.size(); ++op) {
    if (runs_[op] == no_run || operands(op).empty() || !is_known_by_operands(op)) continue;
    const Operand& output = operands(op).back();
    if (!output.buffer || output.access != Access::write) continue;
    const std::uint32_t made = output.buffer.value;
    if (!is_value(made) || writer(made) != op) continue;
    std::vector<std::int64_t> facts{operation(op).step, operation(op).micro_batch, bytes(made)};
    for (const Operand& operand : operands(op).first(operands(op).size() - 1)) {
      facts.push_back(operand.buffer ? value_of(operand) : -1);
      facts.push_back(operand.offset.count);
    }
    const Key key{operation(op).name, graph_of(op), runs_again(op), std::move(facts)};
    const auto [found, fresh] = first.try_emplace(key, made);
    if (!fresh) merge(found->second, made);
  }
}

/// Part of a recomputation, or of the backward behind one.
bool CompiledValues::runs_again(std::uint32_t op) const {
  return operation(op).recomputed || (is_backward(op) && recomputes_.contains(block_of(op)));
}

std::string_view CompiledValues::block_of(std::uint32_t op) const {
  const OwnerId owner = operation(op).owner;
  return owner ? numbered_module_of(schedule_.owners[owner.value]) : std::string_view();
}

void CompiledValues::merge(std::uint32_t kept, std::uint32_t other) {
  same_as_[other] = kept;
  std::vector<ValueUse>& uses = lives_[kept].uses;
  std::ranges::copy_if(lives_[other].uses, std::back_inserter(uses),
                       [](const ValueUse& use) { return use.access == Access::read; });
  std::ranges::stable_sort(uses, {}, &ValueUse::op);
}

}  // namespace shardscope
