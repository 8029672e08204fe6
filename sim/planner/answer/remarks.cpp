#include "sim/planner/answer/remarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "sim/planner/choice_prediction.h"
#include "sim/planner/parallel.h"
#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

using S = ShardingStrategy;

struct Place {
  const Basis& basis;
  const std::stop_token& stop;
  std::span<const Candidate> known;
};

/// The prediction of a changed choice; none where it does not fit or cannot be, or after a stop.
std::optional<Summary> fitting(const Choice& choice, const Place& on) {
  if (on.stop.stop_requested()) return std::nullopt;
  const auto known = std::ranges::find(on.known, choice, &Candidate::choice);
  if (known != on.known.end())
    return known->summary.fits ? std::optional(known->summary) : std::nullopt;
  try {
    Summary summary = summary_of(choice, on.basis.trials, on.stop);
    if (summary.fits) return summary;
  } catch (const Error&) {
    // The runtime has no such choice, or a stop came: there is nothing to remark on.
  }
  return std::nullopt;
}

Choice with(Choice choice, S sharding, Mesh mesh) {
  // DeepSpeed's usual one depends on the stage.
  if (choice.prefetch == usual_prefetch(choice.runtime, choice.sharding))
    choice.prefetch = usual_prefetch(choice.runtime, sharding);
  choice.sharding = sharding;
  choice.mesh = mesh;
  return choice;
}

bool asked(const Inputs& inputs, Runtime runtime) {
  const auto& runtimes = inputs.question.runtimes;
  return std::find(runtimes.begin(), runtimes.end(), runtime) != runtimes.end();
}

/// The best's settings under a runtime that shards, its own if it does.
std::optional<Choice> sharded_like(const Choice& best, const Inputs& inputs) {
  // transformers' tensor parallelism has no other stages beside it.
  if (best.tensor > 1) return std::nullopt;
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

/// Full sharding with the best's settings, and what is predicted of it where it fits.
struct Full {
  Choice choice;
  std::optional<Summary> summary;
};

/// ZeRO-3's units are gathered anew, and on a small model that takes more than sharding saves.
std::optional<std::string> stage_3_beside_stage_2(const Full& three, const Place& on) {
  const Choice& full = three.choice;
  if (full.offload == Offload::all || !three.summary) return std::nullopt;
  const auto two = fitting(with(full, S::shard_grad_op, full.mesh), on);
  if (!two || needed_memory(*three.summary) <= needed_memory(*two)) return std::nullopt;
  return fmt::format(
      "ZeRO-3 takes more memory here than ZeRO-2: {} beside {} ({}): what gathering keeps at once "
      "is more than sharding the parameters saves",
      rounded_text(needed_memory(*three.summary)), rounded_text(needed_memory(*two)),
      text_of(full));
}

/// Gathering inside a node only, across several nodes.
std::optional<std::string> hybrid_beside_full(const Full& whole, const Place& on) {
  const Choice& full = whole.choice;
  const int node = ranks_per_node(on.basis.inputs), world = full.mesh.world();
  if (world <= node || world % node != 0 || node < 2) return std::nullopt;
  if (!whole.summary) return std::nullopt;
  const Choice nodes = with(full, S::hybrid_shard, {.replicate = world / node, .shard = node});
  const auto hybrid = fitting(nodes, on);
  if (!hybrid) return std::nullopt;
  const bool faster = hybrid->step_time < whole.summary->step_time;
  return fmt::format(
      "{} nodes: sharding inside each and replicating across them is {} than "
      "sharding over all {} ranks ({} beside {})",
      world / node, faster ? "faster" : "slower", world, figures(*hybrid), figures(*whole.summary));
}

std::optional<std::string> ddp_beside_full(const Full& whole, const Place& on) {
  const Choice& full = whole.choice;
  if (!whole.summary || !asked(on.basis.inputs, Runtime::ddp) || full.mesh.world() < 2 ||
      full.offload != Offload::none)
    return std::nullopt;
  Choice ddp = with(full, S::no_shard, {.replicate = full.mesh.world()});
  ddp.runtime = Runtime::ddp;
  ddp.prefetch = Prefetch::none;
  ddp.blocks_per_unit = 1;
  ddp.reduces_every_micro_batch = false;
  const auto replicated = fitting(ddp, on);
  if (!replicated || replicated->step_time >= whole.summary->step_time) return std::nullopt;
  return fmt::format(
      "DDP fits, and is faster than full sharding because it gathers nothing: {} "
      "beside {} ({})",
      figures(*replicated), figures(*whole.summary), text_of(full));
}

}  // namespace

std::string small_margin_remark(const std::vector<Candidate>& candidates) {
  const Summary& best = candidates.front().summary;
  if (!has_small_margin(best)) return {};
  std::string text = fmt::format("Only {} spare in place 1: likely to run out of memory.",
                                 rounded_text(*free_memory(best)));
  for (const Candidate& candidate : candidates) {
    const Summary& summary = candidate.summary;
    if (has_small_margin(summary)) continue;
    constexpr double hundred = 100;
    return text + fmt::format(" Place {} is {:.1f}% slower and leaves {}.", candidate.place,
                              (static_cast<double>(summary.step_time.ns) /
                                   static_cast<double>(best.step_time.ns) -
                               1) *
                                  hundred,
                              rounded_text(*free_memory(summary)));
  }
  return text;
}

std::string compilation_remark(const Candidate& best, const Basis& basis,
                               const std::stop_token& stop) {
  // Compiled rings and mixtures are not predicted.
  if (best.choice.runtime == Runtime::native || best.choice.tensor > 1 ||
      context_ranks(best.choice) > 1 || has_experts(best.choice) || stop.stop_requested())
    return {};
  const TrialInputs& eager = basis.trials;
  Training training = eager.training;
  training.compiled = best.choice.torchtitan ? CompileScope::blocks_and_loss : CompileScope::blocks;
  const TrialInputs inputs{.model = eager.model,
                           .config = eager.config,
                           .training = training,
                           .profile = eager.profile,
                           .costs = eager.costs,
                           .native_target = eager.native_target,
                           .allocator = eager.allocator,
                           .margin = eager.margin};
  try {
    const Summary compiled = summary_of(best.choice, inputs, stop);
    const double share = compiled.step_time.seconds() / best.summary.step_time.seconds() - 1;
    return fmt::format(
        "With compiled blocks (--compile {}) a step of place 1 takes {}, and {} as eager code "
        "({:.1f}% {}). It needs {}, and {} as eager code.",
        name_of(training.compiled), rounded_text(compiled.step_time),
        rounded_text(best.summary.step_time), std::abs(share) * 100, share < 0 ? "less" : "more",
        rounded_text(needed_memory(compiled)), rounded_text(needed_memory(best.summary)));
  } catch (const Error&) {
    return {};  // a stop came, or the runtime has no compiled code
  }
}

std::vector<std::string> remarks_on(std::span<const Candidate> places, const Basis& basis,
                                    const std::stop_token& stop) {
  const Choice& best = places.front().choice;
  const Place on{basis, stop, places};
  std::vector<std::string> remarks;
  const auto full = sharded_like(best, basis.inputs);
  if (!full || best.mesh.world() < 2 || is_pipelined(best) || best.torchtitan) return remarks;
  const Full whole{.choice = *full, .summary = fitting(*full, on)};
  constexpr std::array all{ddp_beside_full, stage_3_beside_stage_2, hybrid_beside_full};
  std::array<std::optional<std::string>, all.size()> found;
  for_each_index(all.size(), 0, [&](std::size_t i) { found[i] = all[i](whole, on); });
  for (std::optional<std::string>& remark : found)
    if (remark) remarks.push_back(std::move(*remark));
  return remarks;
}

}  // namespace shardscope::planner
