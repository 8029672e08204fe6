#include "sim/cost/distinct_operations.h"

#include <bit>

namespace shardscope {
namespace {

/// All that a cost model looks at of an operation.
bool alike(const Operation& a, const Operation& b) {
  return a.kind == b.kind && a.detail == b.detail && a.work == b.work && a.bytes == b.bytes &&
         a.flops == b.flops && a.dtype == b.dtype && a.operands.size() == b.operands.size();
}

std::uint64_t hash_of(const Operation& op) {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  std::uint64_t hash =
      static_cast<std::uint64_t>(op.kind) << 8 | static_cast<std::uint64_t>(op.dtype);
  for (const std::uint64_t field :
       {static_cast<std::uint64_t>(op.detail), static_cast<std::uint64_t>(op.work),
        static_cast<std::uint64_t>(op.bytes.count), static_cast<std::uint64_t>(op.flops.count)})
    hash = std::rotl((hash ^ field) * odd, 29);
  return hash;
}

/// Open addressing over the examples, at most half full.
class Classes {
 public:
  explicit Classes(const Schedule& schedule) : schedule_(schedule), slots_(512, none) {}

  std::uint32_t class_of(OperationId id) {
    if (2 * (examples.size() + 1) > slots_.size()) grow();
    std::uint32_t& slot = slot_of(schedule_.at(id));
    if (slot == none) {
      slot = static_cast<std::uint32_t>(examples.size());
      examples.push_back(id);
    }
    return slot;
  }

  std::vector<OperationId> examples;

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  std::uint32_t& slot_of(const Operation& op) {
    std::size_t at = hash_of(op) & (slots_.size() - 1);
    while (slots_[at] != none && !alike(schedule_.at(examples[slots_[at]]), op))
      at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }

  void grow() {
    slots_.assign(2 * slots_.size(), none);
    for (std::size_t i = 0; i < examples.size(); ++i)
      slot_of(schedule_.at(examples[i])) = static_cast<std::uint32_t>(i);
  }

  const Schedule& schedule_;
  std::vector<std::uint32_t> slots_;
};

}  // namespace

DistinctOperations distinct_operations(const Schedule& schedule, IndexRange operations) {
  Classes classes(schedule);
  DistinctOperations distinct;
  distinct.class_of.reserve(operations.size());
  for (std::uint32_t op = operations.begin; op < operations.end; ++op)
    distinct.class_of.push_back(classes.class_of(OperationId{op}));
  distinct.examples = std::move(classes.examples);
  return distinct;
}

}  // namespace shardscope
