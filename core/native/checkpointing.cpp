#include "core/native/checkpointing.h"

#include <utility>

namespace shardscope {
namespace {

/// The last operator of each block makes the block's output.
std::vector<std::size_t> last_operator_of_blocks(const OperatorGraph& graph) {
  std::vector<std::size_t> last(static_cast<std::size_t>(graph.blocks), 0);
  for (std::size_t i = 0; i < graph.forward.size(); ++i) {
    const int block = graph.forward[i].place.block;
    if (block >= 0 && block < graph.blocks) last[static_cast<std::size_t>(block)] = i;
  }
  return last;
}

}  // namespace

void checkpoint_blocks(OperatorGraph& graph) {
  const auto last = last_operator_of_blocks(graph);
  std::vector<ValueId> again(graph.values.size());  // by value: its copy in the recomputation
  std::vector<Operator> backward;
  int block_done = graph.blocks;
  for (Operator& op : graph.backward) {
    const int block = op.place.block;
    if (block >= 0 && block < block_done) {
      block_done = block;
      for (std::size_t i = 0; i < last[static_cast<std::size_t>(block)]; ++i) {
        if (graph.forward[i].place.block != block) continue;
        Operator copy = graph.forward[i];
        copy.phase = Phase::backward;
        copy.recomputed = true;
        for (GraphOperand& operand : copy.operands) {
          if (!operand.value) continue;
          ValueId& mapped = again[operand.value.value];
          if (operand.access == Access::write) {
            const Value value = graph.values[operand.value.value];
            graph.values.push_back(value);
            mapped = ValueId::of(graph.values.size() - 1);
            operand.value = mapped;
          } else if (mapped) {
            operand.value = mapped;
          }
        }
        backward.push_back(std::move(copy));
      }
    }
    for (GraphOperand& operand : op.operands)
      if (operand.value && operand.value.value < again.size() && again[operand.value.value])
        operand.value = again[operand.value.value];
    backward.push_back(std::move(op));
  }
  graph.backward = std::move(backward);
}

}  // namespace shardscope
