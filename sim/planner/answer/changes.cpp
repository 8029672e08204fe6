#include "sim/planner/answer/changes.h"

#include <fmt/format.h>

namespace shardscope::planner {
namespace {

using S = ShardingStrategy;

/// A setting of a file and when it differs.
struct Setting {
  bool (*differs)(const Choice& a, const Choice& b);
  std::string (*text)(const Choice& to);
};

std::string key_of_sharding(const Choice& to) {
  if (to.runtime == Runtime::deepspeed) {
    const int stage = to.sharding == S::zero1 ? 1 : to.sharding == S::shard_grad_op ? 2 : 3;
    return fmt::format("zero_optimization.stage: {}{}", stage,
                       to.sharding == S::hybrid_shard
                           ? fmt::format(" with zero_hpz_partition_size: {}", to.mesh.shard)
                           : "");
  }
  return strategy_text(to);
}

std::string key_of_offload(const Choice& to) {
  if (to.runtime == Runtime::native) return fmt::format("--offload {}", name_of(to.offload));
  if (to.runtime != Runtime::deepspeed)
    return fmt::format("fsdp_offload_params: {}", to.offload == Offload::all);
  if (to.offload == Offload::none) return "no offload";
  return to.offload == Offload::all ? "offload_optimizer and offload_param to cpu"
                                    : "offload_optimizer to cpu";
}

std::string key_of_checkpointing(const Choice& to) {
  if (to.checkpointing == eager::CheckpointChoice{}) return "no activation checkpointing";
  return fmt::format("activation checkpointing {}", text_of(to.checkpointing));
}

std::string key_of_batch(const Choice& to) {
  if (to.micro_batches == 1) return fmt::format("one micro-batch of {}", to.batch);
  return fmt::format("micro-batches of {}, {} of them", to.batch, to.micro_batches);
}

std::string key_of_prefetch(const Choice& to) {
  if (to.runtime == Runtime::deepspeed)
    return fmt::format("zero_optimization.overlap_comm: {}", to.prefetch != Prefetch::none);
  switch (to.prefetch) {
    case Prefetch::none:
      return "no prefetching";
    case Prefetch::post:
      return "fsdp_backward_prefetch: BACKWARD_POST";
    case Prefetch::pre:
      return "fsdp_backward_prefetch: BACKWARD_PRE";
    case Prefetch::both:
      return "fsdp_backward_prefetch: BACKWARD_PRE with fsdp_forward_prefetch: true";
  }
  return {};
}

constexpr Setting settings[] = {
    {[](const Choice& a, const Choice& b) {
       return a.runtime != b.runtime || a.sharding != b.sharding || a.mesh != b.mesh ||
              a.tensor != b.tensor;
     },
     key_of_sharding},
    {[](const Choice& a, const Choice& b) {
       return a.runtime == b.runtime && a.prefetch != b.prefetch;
     },
     key_of_prefetch},
    {[](const Choice& a, const Choice& b) {
       return a.runtime == b.runtime && a.blocks_per_unit != b.blocks_per_unit;
     },
     [](const Choice& to) {
       return to.blocks_per_unit == 0 ? std::string("the whole model as one unit")
                                      : fmt::format("units of {} block{}", to.blocks_per_unit,
                                                    to.blocks_per_unit == 1 ? "" : "s");
     }},
    {[](const Choice& a, const Choice& b) {
       return a.batch != b.batch || a.micro_batches != b.micro_batches;
     },
     key_of_batch},
    {[](const Choice& a, const Choice& b) {
       return b.micro_batches > 1 && a.micro_batches > 1 &&
              a.reduces_every_micro_batch != b.reduces_every_micro_batch;
     },
     [](const Choice& to) {
       return fmt::format("gradients reduced in {}",
                          to.reduces_every_micro_batch ? "every micro-batch" : "the last alone");
     }},
    {[](const Choice& a, const Choice& b) { return a.checkpointing != b.checkpointing; },
     key_of_checkpointing},
    {[](const Choice& a, const Choice& b) { return a.offload != b.offload; }, key_of_offload},
    {[](const Choice& a, const Choice& b) { return a.precision != b.precision; },
     [](const Choice& to) { return fmt::format("precision {}", name_of(to.precision)); }}};

}  // namespace

std::vector<std::string> changes_between(const Choice& from, const Choice& to) {
  std::vector<std::string> changes;
  for (const Setting& setting : settings)
    if (setting.differs(from, to)) changes.push_back(setting.text(to));
  return changes;
}

}  // namespace shardscope::planner
