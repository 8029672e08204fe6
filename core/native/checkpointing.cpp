#include "core/native/checkpointing.h"

#include <algorithm>
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

/// By forward operator: whether a selective block keeps what it writes. In-place work on a kept
/// output (rotary embedding) must not be done twice.
std::vector<bool> kept_operators(const OperatorGraph& graph) {
  std::vector<bool> is_kept;
  std::vector<bool> is_kept_value(graph.values.size(), false);
  for (const Operator& op : graph.forward) {
    const KernelKind kind = op.kernel.kind();
    const bool updates_kept = std::ranges::any_of(op.operands, [&](const GraphOperand& operand) {
      return operand.value && operand.access == Access::read_write &&
             is_kept_value[operand.value.value];
    });
    is_kept.push_back(is_linear(kind) || is_attention(kind) || updates_kept);
    for (const GraphOperand& operand : op.operands)
      if (is_kept.back() && operand.value && operand.access != Access::read)
        is_kept_value[operand.value.value] = true;
  }
  return is_kept;
}

class Recomputation {
 public:
  Recomputation(const Checkpointing& checkpointing, OperatorGraph& graph)
      : checkpointing_(checkpointing),
        graph_(graph),
        last_(last_operator_of_blocks(graph)),
        is_kept_(kept_operators(graph)),
        again_(graph.values.size()) {}

  void add() {
    std::vector<Operator> backward;
    int block_done = graph_.blocks;
    for (Operator& op : graph_.backward) {
      const int block = op.place.block;
      if (block >= 0 && block < block_done) {
        block_done = block;
        run_again(block, backward);
      }
      for (GraphOperand& operand : op.operands)
        if (operand.value && operand.value.value < again_.size() && again_[operand.value.value])
          operand.value = again_[operand.value.value];
      backward.push_back(std::move(op));
    }
    graph_.backward = std::move(backward);
  }

 private:
  void run_again(int block, std::vector<Operator>& into) {
    const bool whole = checkpointing_.runs_again(block);
    if (!whole && !checkpointing_.selective) return;
    for (std::size_t i = 0; i < last_[static_cast<std::size_t>(block)]; ++i) {
      if (graph_.forward[i].place.block != block || (!whole && is_kept_[i])) continue;
      into.push_back(copy_of(graph_.forward[i]));
    }
  }

  Operator copy_of(const Operator& op) {
    Operator copy = op;
    copy.phase = Phase::backward;
    copy.recomputed = true;
    for (GraphOperand& operand : copy.operands) {
      if (!operand.value) continue;
      ValueId& mapped = again_[operand.value.value];
      if (operand.access == Access::write) {
        const Value value = graph_.values[operand.value.value];
        graph_.values.push_back(value);
        mapped = ValueId::of(graph_.values.size() - 1);
        operand.value = mapped;
      } else if (mapped) {
        operand.value = mapped;
      }
    }
    return copy;
  }

  Checkpointing checkpointing_;
  OperatorGraph& graph_;
  std::vector<std::size_t> last_;  ///< by block
  std::vector<bool> is_kept_;      ///< by forward operator
  std::vector<ValueId> again_;     ///< by value: its copy in the recomputation
};

}  // namespace

void checkpoint_blocks(const Checkpointing& checkpointing, OperatorGraph& graph) {
  if (checkpointing.any()) Recomputation(checkpointing, graph).add();
}

}  // namespace shardscope
