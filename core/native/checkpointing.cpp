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

/// Copies of forward operators, on values of their own.
class Copies {
 public:
  explicit Copies(OperatorGraph& graph) : graph_(graph), again_(graph.values.size()) {}

  Operator of(const Operator& op) {
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

  /// The operator takes what the copies have made.
  void give_to(Operator& op) const {
    for (GraphOperand& operand : op.operands)
      if (operand.value && operand.value.value < again_.size() && again_[operand.value.value])
        operand.value = again_[operand.value.value];
  }

 private:
  OperatorGraph& graph_;
  std::vector<ValueId> again_;  ///< by value: its copy
};

class Recomputation {
 public:
  Recomputation(const Checkpointing& checkpointing, OperatorGraph& graph)
      : checkpointing_(checkpointing),
        graph_(graph),
        last_(last_operator_of_blocks(graph)),
        is_kept_(kept_operators(graph)),
        copies_(graph) {}

  void add() {
    std::vector<Operator> backward;
    int block_done = graph_.blocks;
    for (Operator& op : graph_.backward) {
      const int block = op.place.block;
      if (block >= 0 && block < block_done) {
        block_done = block;
        run_again(block, backward);
      }
      copies_.give_to(op);
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
      into.push_back(copies_.of(graph_.forward[i]));
    }
  }

  Checkpointing checkpointing_;
  OperatorGraph& graph_;
  std::vector<std::size_t> last_;  ///< by block
  std::vector<bool> is_kept_;      ///< by forward operator
  Copies copies_;
};

}  // namespace

void checkpoint_blocks(const Checkpointing& checkpointing, OperatorGraph& graph) {
  if (checkpointing.any()) Recomputation(checkpointing, graph).add();
}

void checkpoint_stage(int micro_batches, OperatorGraph& graph) {
  const bool has_gradients = !graph.backward.empty() || !graph.loss.empty();
  if (micro_batches == 0 || graph.forward.empty() || !has_gradients) return;
  graph.micro_batches_again = micro_batches;
  Copies copies(graph);
  // The backward does not need what is sent to the next stage.
  const bool ends = graph.segments.back().stage.ends;
  const std::size_t run_again = graph.forward.size() - (ends ? 0 : 1);
  std::vector<Operator>& first = ends ? graph.loss_again : graph.backward_again;
  for (std::size_t i = 0; i < run_again; ++i) first.push_back(copies.of(graph.forward[i]));
  const auto add = [&](const std::vector<Operator>& from, std::vector<Operator>& to) {
    for (Operator op : from) {
      copies.give_to(op);
      to.push_back(std::move(op));
    }
  };
  add(graph.loss, graph.loss_again);
  add(graph.backward, graph.backward_again);
}

}  // namespace shardscope
