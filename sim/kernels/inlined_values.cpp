#include "sim/kernels/inlined_values.h"

#include <algorithm>
#include <optional>

namespace shardscope {

InlinedValues::InlinedValues(const CompiledValues& values, const Rematerialization& kept)
    : values_(values), kept_(kept), reads_(values.buffers()), needed_until_(values.buffers(), 0) {
  for (std::uint32_t op = 0; op < values.operations(); ++op)
    if (is_collective(values.operation(op).kind)) with_collectives_.insert(values.graph_of(op));
  std::vector<std::uint32_t> candidates;
  for (std::uint32_t b = 0; b < values.buffers(); ++b)
    if (can_be_made_again(b)) candidates.push_back(b);
  // What a value is made of is made before it.
  std::ranges::stable_sort(candidates, {},
                           [&](std::uint32_t b) { return values.life(b).uses.front().op; });
  for (const std::uint32_t b : candidates) {
    reads_[b] = reads_of(b);
    if (!is_inlined(b)) continue;
    const bool in_backward = values.is_backward(values.life(b).uses.front().op);
    for (const std::uint32_t source : reads_[b])
      if (!in_backward || !kept.is_recomputed(source))
        needed_until_[source] = std::max(needed_until_[source], values.last_use(b));
  }
}

/// By fused kernels of forward alone, or of backward alone.
bool InlinedValues::can_be_made_again(std::uint32_t b) const {
  if (!values_.is_value(b) || values_.is_another(b) || !values_.stays_in_graph(b)) return false;
  const std::optional<std::uint32_t> op = values_.writer(b);
  if (!op || kept_.kept_until(b) > 0 || !with_collectives_.contains(values_.graph(b))) return false;
  const WorkKind kind = values_.kind(*op);
  if (kind != WorkKind::pointwise && kind != WorkKind::copy) return false;
  return std::ranges::all_of(values_.life(b).uses, [&](const ValueUse& use) {
    return values_.run(use.op) != no_run && values_.is_backward(use.op) == values_.is_backward(*op);
  });
}

/// Empty where they are too many, or one of them is there in another kernel alone.
InlinedValues::Buffers InlinedValues::reads_of(std::uint32_t b) const {
  constexpr std::size_t realize_reads_threshold = 4;
  Buffers reads;
  for (const Operand& operand : values_.operands(values_.life(b).uses.front().op)) {
    if (!operand.buffer || operand.access == Access::write) continue;
    const std::uint32_t source = values_.value_of(operand);
    if (source == b) return {};
    if (!reads_[source].empty())
      reads.insert(reads_[source].begin(), reads_[source].end());
    else if (values_.is_value(source) && values_.stays_in_kernel(source))
      return {};
    else
      reads.insert(source);
  }
  return reads.size() > realize_reads_threshold ? Buffers{} : reads;
}

}  // namespace shardscope
