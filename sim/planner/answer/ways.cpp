#include "sim/planner/answer/ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

/// RFC 4180: with quotes where a comma, a quote or a line's end stands in it.
std::string field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

/// A strategy has one place: with its fastest settings.
std::optional<PlaceToBeat> place_to_beat(const Choice& choice, std::span<const Candidate> best) {
  if (best.empty()) return std::nullopt;
  const auto same = std::ranges::find(best, kind_of(choice),
                                      [](const Candidate& one) { return kind_of(one.choice); });
  if (same == best.end()) return PlaceToBeat{"the last place", best.back().summary.step_time};
  return PlaceToBeat{fmt::format("place {} of the same strategy", same->place),
                     same->summary.step_time};
}

/// Its ranks, schedule, stages of a rank, layers of stages, checkpoint and bubble; empty without a
/// pipeline. The bubble is known of places.
std::string pipeline_fields(const Way& way) {
  if (!is_pipelined(way.choice)) return ",,,,,";
  const PipelineChoice& pipeline = way.choice.pipeline;
  return fmt::format("{},{},{},{},{},{}", way.choice.mesh.pipeline, name_of(pipeline.schedule),
                     pipeline.stages_per_rank, field(text_of_stages(pipeline)),
                     name_of(pipeline.checkpoint),
                     way.bubble_share ? fmt::format("{:.6f}", *way.bubble_share) : std::string());
}

/// Ranks of context and tensor, and those over which experts are spread; without torchtitan's loop
/// there is tensor alone, and without experts not the last.
std::string axes_fields(const Choice& choice) {
  if (!choice.torchtitan)
    return fmt::format(",{},", choice.tensor > 1 ? std::to_string(choice.tensor) : "");
  return fmt::format("{},{},{}", choice.torchtitan->context, choice.torchtitan->tensor,
                     has_experts(choice) ? std::to_string(expert_ranks(choice)) : "");
}

std::string line(const Way& way) {
  const Choice& c = way.choice;
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                     way.place > 0 ? std::to_string(way.place) : "", way.outcome, runtime_name(c),
                     name_of(c.sharding), c.mesh.replicate, c.mesh.shard, c.blocks_per_unit,
                     name_of(c.prefetch), c.batch, c.micro_batches, c.reduces_every_micro_batch,
                     text_of(c.checkpointing), name_of(c.offload), name_of(c.precision),
                     way.time > Duration{} ? std::to_string(way.time.ns) : "",
                     way.memory > Bytes{} ? std::to_string(way.memory.count) : "", field(way.why),
                     pipeline_fields(way), axes_fields(c));
}

}  // namespace

std::vector<Way> ways_of(const Weighed& weighed, std::span<const Candidate> candidates,
                         std::size_t best_few, const Basis& basis) {
  std::vector<Way> ways;
  for (const Choice& choice : weighed.choices) ways.push_back({.choice = choice});
  const std::span<const Candidate> best = candidates.first(best_few);
  const auto set = [&](const Outcome& outcome) {
    Way& way = ways[outcome.choice];
    way.outcome = name_of(outcome.reason);
    way.time = outcome.time;
    way.memory = outcome.memory;
    way.why = why(outcome, basis.trials, place_to_beat(way.choice, best),
                  allowed_step_text(basis.inputs, world_of(way.choice)));
  };
  for (const Outcome& outcome : weighed.others) set(outcome);
  for (const Outcome& outcome : weighed.tried) set(outcome);
  for (const Candidate& candidate : candidates) {
    const auto way = std::find_if(ways.begin(), ways.end(),
                                  [&](const Way& one) { return one.choice == candidate.choice; });
    if (way == ways.end()) continue;
    *way = {.choice = candidate.choice,
            .place = candidate.place,
            .outcome = "place",
            .time = candidate.summary.step_time,
            .memory = needed_memory(candidate.summary),
            .why = candidate.why};
    if (const auto& pipeline = candidate.summary.pipeline)
      way->bubble_share = pipeline->bubble_share;
  }
  return ways;
}

std::string ways_csv(std::span<const Way> ways) {
  std::string text =
      "place,outcome,runtime,strategy,replicate,shard,blocks_per_unit,prefetch,batch,accumulate,"
      "reduce_every_micro_batch,checkpointing,offload,precision,step_time_ns,needed_bytes,why,"
      "pipeline,pipeline_schedule,stages_per_rank,stages,pipeline_checkpoint,bubble_share,"
      "context,tensor,expert\n";
  for (const Way& way : ways) text += line(way);
  return text;
}

}  // namespace shardscope::planner
