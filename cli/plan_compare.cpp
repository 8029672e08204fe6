#include "cli/plan_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"

namespace shardscope {
namespace {

using planner::Choice;
using planner::Offload;
using planner::Prefetch;
using S = ShardingStrategy;

struct Part {
  std::string_view name;
  Duration best, other;
  Duration more() const { return other - best; }
};

/// What of its time the slower one has more of.
Part largest_part(const Accounting& best, const Accounting& other) {
  const Part parts[] = {
      {"compute", best.compute, other.compute},
      {"exposed communication", best.exposed_communication, other.exposed_communication},
      {"exposed copies", best.exposed_copy, other.exposed_copy},
      {"idle time", best.idle, other.idle}};
  return *std::max_element(std::begin(parts), std::end(parts),
                           [](const Part& a, const Part& b) { return a.more() < b.more(); });
}

std::string signed_memory(const Summary& best, const Summary& other) {
  const std::int64_t more = needed_memory(other).count - needed_memory(best).count;
  return fmt::format("{} {}", rounded_text(Bytes{std::abs(more)}), more > 0 ? "more" : "less");
}

/// What changed choices are predicted on.
struct Place {
  const PlanInputs& inputs;
  const planner::TrialInputs& planning;
};

/// The prediction of a changed choice; none where it does not fit or cannot be.
std::optional<Summary> fitting(const Choice& choice, const Place& on) {
  try {
    Summary summary = summary_of(choice, on.inputs, on.planning);
    if (summary.fits) return summary;
  } catch (const Error&) {
    // The runtime has no such choice: there is nothing to remark on.
  }
  return std::nullopt;
}

Choice with(Choice choice, S sharding, Mesh mesh) {
  choice.sharding = sharding;
  choice.mesh = mesh;
  return choice;
}

bool asked(const PlanInputs& inputs, Runtime runtime) {
  const auto& runtimes = inputs.question.runtimes;
  return std::find(runtimes.begin(), runtimes.end(), runtime) != runtimes.end();
}

/// The best's settings under a runtime that shards, its own if it does.
std::optional<Choice> sharded_like(const Choice& best, const PlanInputs& inputs) {
  Choice choice = best;
  if (best.runtime == Runtime::ddp) {
    const Runtime others[] = {Runtime::fsdp2, Runtime::fsdp1, Runtime::deepspeed};
    const auto* found = std::find_if(std::begin(others), std::end(others),
                                     [&](Runtime runtime) { return asked(inputs, runtime); });
    if (found == std::end(others)) return std::nullopt;
    choice.runtime = *found;
    choice.prefetch = Prefetch::pre;
  }
  return with(choice, S::full_shard, {.shard = best.mesh.world()});
}

std::string figures(const Summary& summary) {
  return fmt::format("{}, {}", rounded_text(summary.step_time),
                     rounded_text(needed_memory(summary)));
}

/// ZeRO-3's units are gathered anew, and on a small model that takes more than sharding saves.
std::optional<std::string> stage_3_beside_stage_2(const Choice& full, const Place& on) {
  if (full.offload == Offload::all) return std::nullopt;
  const auto three = fitting(full, on);
  const auto two = fitting(with(full, S::shard_grad_op, full.mesh), on);
  if (!three || !two || needed_memory(*three) <= needed_memory(*two)) return std::nullopt;
  return fmt::format(
      "ZeRO-3 takes more memory here than ZeRO-2: {} beside {} ({}): what gathering keeps at once "
      "is more than sharding the parameters saves",
      rounded_text(needed_memory(*three)), rounded_text(needed_memory(*two)),
      planner::text_of(full));
}

/// Gathering inside a node only, across several nodes.
std::optional<std::string> hybrid_beside_full(const Choice& full, const Place& on) {
  const int node = ranks_per_node(on.inputs), world = full.mesh.world();
  if (world <= node || world % node != 0 || node < 2) return std::nullopt;
  const auto whole = fitting(full, on);
  const Choice nodes = with(full, S::hybrid_shard, {.replicate = world / node, .shard = node});
  const auto hybrid = fitting(nodes, on);
  if (!whole || !hybrid) return std::nullopt;
  const bool faster = hybrid->step_time < whole->step_time;
  return fmt::format(
      "{} nodes: sharding inside each and replicating across them is {} than "
      "sharding over all {} ranks ({} beside {})",
      world / node, faster ? "faster" : "slower", world, figures(*hybrid), figures(*whole));
}

std::optional<std::string> ddp_beside_full(const Choice& full, const Place& on) {
  if (!asked(on.inputs, Runtime::ddp) || full.mesh.world() < 2 || full.offload != Offload::none)
    return std::nullopt;
  Choice ddp = with(full, S::no_shard, {.replicate = full.mesh.world()});
  ddp.runtime = Runtime::ddp;
  ddp.prefetch = Prefetch::none;
  ddp.blocks_per_unit = 1;
  ddp.reduces_every_micro_batch = false;
  const auto whole = fitting(full, on), replicated = fitting(ddp, on);
  if (!whole || !replicated || replicated->step_time >= whole->step_time) return std::nullopt;
  return fmt::format(
      "DDP fits, and is faster than full sharding because it gathers nothing: {} "
      "beside {} ({})",
      figures(*replicated), figures(*whole), planner::text_of(full));
}

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
  return planner::strategy_text(to);
}

std::string key_of_offload(const Choice& to) {
  if (to.runtime != Runtime::deepspeed)
    return fmt::format("fsdp_offload_params: {}", to.offload == Offload::all);
  if (to.offload == Offload::none) return "no offload";
  return to.offload == Offload::all ? "offload_optimizer and offload_param to cpu"
                                    : "offload_optimizer to cpu";
}

std::string key_of_checkpointing(const Choice& to) {
  if (to.checkpointing == eager::CheckpointChoice{}) return "no activation checkpointing";
  return fmt::format("activation checkpointing {}", planner::text_of(to.checkpointing));
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
       return a.runtime != b.runtime || a.sharding != b.sharding || a.mesh != b.mesh;
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

std::string why_not_best(const Summary& best, const Summary& other, PlanObjective objective) {
  const double share = static_cast<double>(other.step_time.ns) /
                           static_cast<double>(std::max<std::int64_t>(1, best.step_time.ns)) -
                       1;
  if (objective == PlanObjective::memory)
    return fmt::format("{} memory, {:+.1f}% step time", signed_memory(best, other), share * 100);
  const Part part = largest_part(best.time, other.time);
  std::string text = fmt::format("{:.1f}% slower", share * 100);
  constexpr double nothing = 0.0005;
  if (std::abs(share) < nothing) text = "as fast";
  if (share <= -nothing) text = fmt::format("{:.1f}% faster", -share * 100);
  if (share >= nothing && part.more().ns > 0)
    text += fmt::format(": {} more {}", rounded_text(part.more()), part.name);
  if (needed_memory(best) == needed_memory(other)) return text + "; as much memory";
  return text + fmt::format("; {} memory", signed_memory(best, other));
}

bool cannot_be_told_apart(const Summary& a, const Summary& b) {
  return a.step_time_low <= b.step_time_high && b.step_time_low <= a.step_time_high;
}

std::vector<std::string> remarks_on(const Candidate& best, const PlanInputs& inputs,
                                    const planner::TrialInputs& planning) {
  std::vector<std::string> remarks;
  const Place on{inputs, planning};
  const auto full = sharded_like(best.choice, inputs);
  if (!full || best.choice.mesh.world() < 2) return remarks;
  for (const auto& remark : {ddp_beside_full(*full, on), stage_3_beside_stage_2(*full, on),
                             hybrid_beside_full(*full, on)})
    if (remark) remarks.push_back(*remark);
  return remarks;
}

std::vector<std::string> changes_between(const Choice& from, const Choice& to) {
  std::vector<std::string> changes;
  for (const Setting& setting : settings)
    if (setting.differs(from, to)) changes.push_back(setting.text(to));
  return changes;
}

}  // namespace shardscope
