// What a recorded schedule says of the values that torch.compile decides about: where each is made,
// read and let go, and which fused kernel does it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "core/schedule/compile_scope.h"
#include "core/schedule/schedule.h"

namespace shardscope {

inline constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();
inline constexpr std::uint32_t no_run = std::numeric_limits<std::uint32_t>::max();

struct ValueUse {
  std::uint32_t op = 0;
  Access access = Access::read;
};

/// Where a buffer stands in the host program, and what touches it, in order.
struct ValueLife {
  std::size_t allocated = nowhere;
  std::size_t freed = nowhere;
  std::vector<ValueUse> uses;
};

/// Buffers and operations are indices of the schedule, which must outlive it.
class CompiledValues {
 public:
  CompiledValues(const Schedule& schedule, CompileScope scope);

  std::uint32_t buffers() const { return static_cast<std::uint32_t>(lives_.size()); }
  const ValueLife& life(std::uint32_t buffer) const { return lives_[buffer]; }
  std::int64_t bytes(std::uint32_t buffer) const { return schedule_.buffers[buffer].bytes.count; }
  /// Made and let go within the program, by operators of the model.
  bool is_value(std::uint32_t buffer) const;
  /// What wrote it, where that is one operator of a fused kernel. Of a value.
  std::optional<std::uint32_t> writer(std::uint32_t buffer) const;
  /// The value that stands for a buffer: another one, where the graph has computed the same before.
  std::uint32_t value_of(const Operand& operand) const { return same_as_[operand.buffer.value]; }
  bool is_another(std::uint32_t buffer) const { return same_as_[buffer] != buffer; }
  /// The graph that makes a value.
  std::string_view graph(std::uint32_t value) const {
    return graph_of(lives_[value].uses.front().op);
  }
  /// All that touches a value belongs to one graph.
  bool stays_in_graph(std::uint32_t value) const;
  /// All that touches a value belongs to one fused kernel.
  bool stays_in_kernel(std::uint32_t value) const;
  /// Made in a forward that runs again, and read there alone, though it is freed later: what a
  /// selective checkpoint keeps of an operator whose result the recomputation does not need.
  bool is_kept_unread(std::uint32_t value) const;
  /// Where the last kernel that touches a value has been issued.
  std::size_t last_use(std::uint32_t value) const;

  std::uint32_t operations() const { return static_cast<std::uint32_t>(runs_.size()); }
  const Operation& operation(std::uint32_t op) const { return schedule_.operations[op]; }
  std::span<const Operand> operands(std::uint32_t op) const {
    return schedule_.operands_of(schedule_.operations[op]);
  }
  /// Of an operation of a fused kernel.
  WorkKind kind(std::uint32_t op) const {
    return schedule_.works[schedule_.operations[op].work].kind;
  }
  /// The fused kernel that an operation is part of, or no_run.
  std::uint32_t run(std::uint32_t op) const { return runs_[op]; }
  /// Place in the host program where an operation is issued.
  std::size_t place(std::uint32_t op) const { return places_[op]; }
  /// Place where the last operation of its kernel is issued.
  std::size_t end_of(std::uint32_t op) const {
    return runs_[op] == no_run ? places_[op] : ends_[runs_[op]];
  }
  /// Of autograd; not a forward that runs again.
  bool is_backward(std::uint32_t op) const {
    return operation(op).phase == Phase::backward && !operation(op).recomputed;
  }
  std::string_view graph_of(std::uint32_t op) const;

 private:
  bool is_of_functional_collective(std::uint32_t buffer) const;
  void read_program();
  void merge_what_is_the_same();
  bool is_known_by_operands(std::uint32_t op) const;
  bool runs_again(std::uint32_t op) const;
  std::string_view block_of(std::uint32_t op) const;
  void merge(std::uint32_t kept, std::uint32_t other);

  const Schedule& schedule_;
  CompileScope scope_;
  std::vector<std::uint32_t> runs_;        // by operation
  std::vector<std::size_t> places_;        // by operation
  std::vector<std::size_t> ends_;          // by run
  std::vector<ValueLife> lives_;           // by buffer
  std::vector<std::uint32_t> same_as_;     // by buffer
  std::set<std::string_view> recomputes_;  // blocks under activation checkpointing
};

}  // namespace shardscope
