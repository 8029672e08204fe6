#include "sim/megatron/ring_attention.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/ranks.h"
#include "sim/kernels/steady_step.h"

namespace shardscope {
namespace {

bool is_attention(const DeviceWork& work) {
  return work.attention.library != AttentionLibrary::none;
}

void see_all_keys(Schedule& schedule, int ranks) {
  for (DeviceWork& work : schedule.works) {
    if (!is_attention(work)) continue;
    work.attention.keys *= ranks;
    work.flops = work.flops * ranks;
  }
}

class Exchange {
 public:
  Exchange(Schedule schedule, const RingAttention& ring)
      : schedule_(std::move(schedule)), ring_(ring) {
    all_ = add_group("context", ring.ranks);
    next_ = add_group("context, next", 2);
  }

  Schedule insert() {
    rewrite_steady_step(schedule_, [&](std::uint32_t i, std::vector<HostAction>& changed) {
      const HostAction action = schedule_.program.actions[i];
      changed.push_back(action);
      if (action.kind == HostActionKind::launch) exchange(changed, action);
    });
    return std::move(schedule_);
  }

 private:
  GroupId add_group(std::string name, int ranks) {
    std::vector<int> list = Ranks::up_to(ranks).list();
    for (int& rank : list) rank *= ring_.distance;
    schedule_.groups.push_back({.name = std::move(name), .ranks = Ranks(std::move(list))});
    return GroupId::of(schedule_.groups.size() - 1);
  }

  void exchange(std::vector<HostAction>& actions, const HostAction& launch) {
    const Operation op = schedule_.operations[launch.subject];
    if (op.work == Operation::no_work || !is_attention(schedule_.works[op.work])) return;
    const DeviceWork work = schedule_.works[op.work];
    const AttentionShape& shape = work.attention;
    const std::int64_t queries = shape.batch * shape.heads * shape.queries * shape.head_dim;
    const std::int64_t pairs =  // of keys and values, of one rank
        2 * shape.batch * shape.kv_heads * (shape.keys / ring_.ranks) * shape.head_dim;
    if (!ring_.waits) return merge_in_16_bits(actions, launch, queries, pairs);
    communicate(actions, launch, OperationKind::all_gather,
                {.group = all_,
                 .elements_in = pairs,
                 .elements_out = pairs * ring_.ranks,
                 .dtype = work.dtype});
    // A sum in float32 of what comes in 16 bits: 4 read, 2 read, 4 written.
    constexpr std::int64_t merged = 10, joined = 8;
    if (work.kind == WorkKind::attention_forward)
      return compute(actions, launch, Bytes{queries * merged * (ring_.ranks - 1)});
    compute(actions, launch, Bytes{((queries + pairs) * merged + pairs * joined) * ring_.ranks});
    for (int i = 0; i < ring_.ranks; ++i)
      communicate(
          actions, launch, OperationKind::send,
          {.group = next_, .elements_in = pairs, .elements_out = pairs, .dtype = Dtype::float32});
  }

  /// Forward the first part is scaled (2 read, 2 written) and each other one added; backward the
  /// gradients of each part but the first are. Of an addition 2 and 2 are read and 2 written.
  void merge_in_16_bits(std::vector<HostAction>& actions, const HostAction& launch,
                        std::int64_t queries, std::int64_t pairs) {
    constexpr std::int64_t scaled = 4, added = 6;
    const DeviceWork& work = schedule_.works[schedule_.operations[launch.subject].work];
    const std::int64_t others = ring_.ranks - 1;
    const std::int64_t bytes = work.kind == WorkKind::attention_forward
                                   ? queries * (scaled + added * others)
                                   : (queries + pairs) * added * others;
    compute(actions, launch, Bytes{bytes});
  }

  void communicate(std::vector<HostAction>& actions, const HostAction& after, OperationKind kind,
                   const Collective& made) {
    schedule_.collectives.push_back(made);
    Operation op = like(after);
    op.kind = kind;
    op.detail = static_cast<std::uint32_t>(schedule_.collectives.size() - 1);
    op.bytes = bytes_of(made.elements_out, made.dtype);
    add_launch(schedule_, op, after.lane, actions);
  }

  void compute(std::vector<HostAction>& actions, const HostAction& after, Bytes bytes) {
    schedule_.works.push_back(
        {.kind = WorkKind::pointwise, .launches = ring_.ranks, .bytes = bytes});
    Operation op = like(after);
    op.work = static_cast<std::uint32_t>(schedule_.works.size() - 1);
    op.bytes = bytes;
    add_launch(schedule_, op, after.lane, actions);
  }

  Operation like(const HostAction& action) const {
    Operation op = bare_operation(schedule_, action);
    op.owner = {};  // no layer's own: nothing casts or fuses it
    return op;
  }

  Schedule schedule_;
  const RingAttention& ring_;
  GroupId all_, next_;
};

}  // namespace

Schedule with_ring_attention(Schedule schedule, const RingAttention& ring) {
  if (ring.ranks <= 1) return schedule;
  see_all_keys(schedule, ring.ranks);
  if (schedule.steps.empty()) return schedule;
  return Exchange(std::move(schedule), ring).insert();
}

}  // namespace shardscope
