#include "sim/planner/answer/inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "sim/planner/enumerate_torchtitan.h"

namespace shardscope::planner {
namespace {

template <class Value>
bool contains(const std::vector<Value>& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

/// Those that change how a model trains are weighed only where they are asked for.
void drop_unasked_precisions(const Inputs& inputs, Enumeration& all) {
  if (!inputs.has_usual_precisions) return;
  for (const TrainingPrecision precision :
       {TrainingPrecision::bf16, TrainingPrecision::fp16_mixed}) {
    if (contains(inputs.question.precisions, precision)) continue;
    all.dropped.push_back({std::string(name_of(precision)),
                           precision == TrainingPrecision::bf16
                               ? "weights and states in bfloat16 train differently: only where "
                                 "--precision asks for it"
                               : "needs a loss scaler: only where --precision asks for it"});
  }
}

void drop_unasked_strategies(const Inputs& inputs, Enumeration& all) {
  const bool alone = inputs.pipelines == PipelinesAsked::alone;
  const auto is_unasked = [&](const Choice& choice) {
    if (is_pipelined(choice)) return false;
    return alone || (!inputs.strategies.empty() && !contains(inputs.strategies, choice.sharding));
  };
  std::erase_if(all.choices, is_unasked);
  std::erase_if(all.groups, [&](const LayoutGroup& group) { return is_unasked(group.common); });
}

/// What `simulate` refuses of compiled code and of float8 under torchtitan.
void drop_unknown_kernels(const Training& training, Enumeration& all) {
  const auto drop = [&](bool asked, const char* strategy, const char* why, auto unwanted) {
    if (!asked || std::erase_if(all.choices, unwanted) == 0) return;
    all.dropped.push_back({strategy, why});
  };
  drop(training.compiled != CompileScope::none, "torchtitan context",
       "it is not predicted with compiled code",
       [](const Choice& choice) { return context_ranks(choice) > 1; });
  drop(training.float8 != eager::parallel::Float8Recipe::none,
       "pipelines with several stages a rank", "they are not predicted with float8",
       [](const Choice& choice) {
         return choice.runtime != Runtime::native && is_pipelined(choice) &&
                choice.pipeline.stages_per_rank > 1;
       });
}

Error no_pipeline_is_left(const std::vector<Dropped>& dropped) {
  const auto why = std::ranges::find_if(dropped, [](const Dropped& one) {
    return one.strategy.find("pipeline") != std::string::npos;
  });
  return Error({.where = "--strategy pipeline",
                .what = why == dropped.end() ? std::string("no pipeline is left to compare")
                                             : fmt::format("{}: {}", why->strategy, why->why),
                .way_out = "ask for other strategies, too, or for other ranks or tokens"});
}

Error without_asked_strategies(const Inputs& inputs) {
  std::vector<std::string_view> names;
  for (const ShardingStrategy strategy : inputs.strategies) names.push_back(name_of(strategy));
  return Error({.where = "--strategy",
                .what = fmt::format("torchtitan has no {}", fmt::join(names, " and no ")),
                .way_out = "give full_shard, shard_grad_op, hybrid_shard, hybrid_shard_zero2 or "
                           "pipeline, or other ranks"});
}

/// Why nothing is left: what takes all strategies of a runtime, such as "deepspeed, bf16", before
/// what takes one.
Error nothing_is_left(const std::vector<Dropped>& dropped) {
  auto why = std::ranges::find_if(
      dropped, [](const Dropped& one) { return one.strategy.find(", ") != std::string::npos; });
  if (why == dropped.end()) why = dropped.begin();
  return Error({.where = "--runtime and --strategy",
                .what = dropped.empty() ? "nothing that was asked for is a strategy"
                                        : fmt::format("nothing is left to compare: {}: {}",
                                                      why->strategy, why->why),
                .way_out = "ask for more of them"});
}

}  // namespace

Enumeration choices_of(const Inputs& inputs, int world) {
  Question question = inputs.question;
  question.world = world;
  question.config = &inputs.config;
  question.ranks_per_node = ranks_per_node(inputs);
  question.pipelines = inputs.pipelines != PipelinesAsked::not_at_all;
  question.torchtitan_pipelines =
      question.pipelines && inputs.pipelines != PipelinesAsked::as_usual;
  Enumeration all = enumerate(inputs.model, question);
  const bool is_torchtitan_alone = question.torchtitan && question.runtimes.empty();
  if (all.choices.empty() && is_torchtitan_alone)
    throw no_layout_of_torchtitan(inputs.model, question);
  drop_unasked_precisions(inputs, all);
  drop_unasked_strategies(inputs, all);
  drop_unknown_kernels(question.training, all);
  if (all.choices.empty() && inputs.pipelines == PipelinesAsked::alone)
    throw no_pipeline_is_left(all.dropped);
  if (all.choices.empty() && is_torchtitan_alone) throw without_asked_strategies(inputs);
  if (all.choices.empty()) throw nothing_is_left(all.dropped);
  return all;
}

int ranks_per_node(const Inputs& inputs) {
  const int per_node = inputs.profile.ranks_per_node;
  return per_node > 0 ? per_node : inputs.question.world;
}

std::optional<SlowestStep> slowest_step(const Inputs& inputs, int world) {
  return slowest_step(world, inputs.question.tokens_per_batch, inputs.goals);
}

std::string allowed_step_text(const Inputs& inputs, int world) {
  const auto slowest = slowest_step(inputs, world);
  return slowest ? fmt::format("{} ({})", rounded_text(slowest->time), slowest->goal)
                 : std::string();
}

WrittenFrom written_from(const Inputs& inputs) {
  return {.job = inputs.job,
          .model = inputs.model,
          .ranks_per_node = ranks_per_node(inputs),
          .compiled = inputs.question.training.compiled,
          .float8 = inputs.question.training.float8};
}

}  // namespace shardscope::planner
