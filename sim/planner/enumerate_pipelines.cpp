#include "sim/planner/enumerate_pipelines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/native/native_abilities.h"
#include "core/native/pipeline_stages.h"
#include "core/pytorch/parallel/model_shape.h"
#include "sim/planner/torchtitan_pipeline.h"

namespace shardscope::planner {
namespace {

using S = ShardingStrategy;

/// Interleaved1F1B and InterleavedZeroBubble take micro-batches in rounds of as many.
bool has_whole_rounds(const PipelineSetup& setup) {
  const bool has_rounds = setup.kind == PipelineScheduleKind::interleaved_1f1b ||
                          setup.kind == PipelineScheduleKind::interleaved_zero_bubble;
  return !has_rounds || setup.micro_batches % rounds_of(setup).count == 0;
}

/// What is sharded how over the ranks of one stage.
struct Inside {
  S sharding = S::no_shard;
  Mesh mesh;
};

constexpr S fsdp2_strategies[] = {S::full_shard, S::shard_grad_op, S::hybrid_shard,
                                  S::hybrid_shard_zero2};

std::vector<Inside> insides_of(Runtime runtime, int ranks) {
  if (ranks == 1) return {{}};
  std::vector<Inside> insides;
  const std::span<const S> strategies = runtime == Runtime::native
                                            ? std::span<const S>(native_abilities().strategies)
                                            : std::span<const S>(fsdp2_strategies);
  for (const S sharding : strategies)
    for (const Mesh& mesh : meshes_of(sharding, ranks)) insides.push_back({sharding, mesh});
  return insides;
}

class PipelineEnumerator {
 public:
  PipelineEnumerator(const Model& model, const Question& question, Runtime runtime,
                     const std::vector<TrainingPrecision>& precisions,
                     const std::optional<TorchtitanAxes>& axes)
      : model_(model),
        question_(question),
        runtime_(runtime),
        precisions_(precisions),
        axes_(axes),
        blocks_(model.decoder ? static_cast<int>(model.decoder->blocks.size()) : 0),
        sequences_(question.tokens_per_batch / question.training.length) {}

  Enumeration run() {
    if (const std::string why = why_none(); !why.empty()) {
      drop(why);
      return std::move(result_);
    }
    for (const WeighedSchedule& schedule : weighed_schedules)
      for (const std::int64_t ranks : divisors_of(question_.world))
        if (ranks > 1) add(schedule, static_cast<int>(ranks));
    if (axes_ && question_.all_layouts) add_groups();
    say_what_is_left_out();
    return std::move(result_);
  }

 private:
  void add(const WeighedSchedule& schedule, int ranks) {
    if (ranks * schedule.stages_per_rank > blocks_) {
      has_too_few_layers_ = true;
      return;
    }
    for (const PipelineChoice& pipeline : balances_of(schedule, ranks))
      for (Choice& choice : inside_of(pipeline, ranks)) add_checkpointings(std::move(choice));
  }

  /// With all that the ranks of a stage can share.
  std::vector<Choice> inside_of(const PipelineChoice& pipeline, int ranks) {
    std::vector<Choice> choices;
    for (const Inside& inside : insides_of(runtime_, question_.world / ranks))
      for (const TrainingPrecision precision : precisions_) {
        Choice choice{.runtime = runtime_,
                      .sharding = inside.sharding,
                      .mesh = inside.mesh,
                      .pipeline = pipeline,
                      .prefetch = usual_prefetch(runtime_, inside.sharding),
                      .precision = precision,
                      .torchtitan = axes_};
        choice.mesh.pipeline = ranks;
        if (has(choice)) choices.push_back(std::move(choice));
      }
    return choices;
  }

  void add_groups() {
    for (const std::int64_t ranks : divisors_of(question_.world)) {
      if (ranks == 1) continue;
      for (const WeighedSchedule& schedule : weighed_schedules)
        add_groups(schedule, static_cast<int>(ranks), true);
      for (const PipelineScheduleKind kind : schedules_of_many_stages)
        for (int stages = 2; stages <= most_stages_per_rank; ++stages)
          if (!is_weighed({kind, stages}))
            add_groups({kind, stages}, static_cast<int>(ranks), false);
    }
  }
  static bool is_weighed(const WeighedSchedule& schedule) {
    return std::ranges::any_of(weighed_schedules, [&](const WeighedSchedule& one) {
      return one.kind == schedule.kind && one.stages_per_rank == schedule.stages_per_rank;
    });
  }

  void add_groups(const WeighedSchedule& schedule, int ranks, bool is_among_choices) {
    const int stages = ranks * schedule.stages_per_rank;
    if (stages > blocks_) return;
    const PipelineChoice pipeline{.schedule = schedule.kind,
                                  .stages_per_rank = schedule.stages_per_rank};
    const auto variants =
        std::make_shared<const LayoutVariants>(variants_of(pipeline, stages, is_among_choices));
    if (variants->all.empty()) return;
    for (Choice& choice : inside_of(pipeline, ranks))
      add_batches(std::move(choice), [&](const Choice& with_batch) {
        result_.groups.push_back({with_batch, variants});
      });
  }

  /// Without those that are choices already, which have layers by number or work.
  LayoutVariants variants_of(const PipelineChoice& pipeline, int stages,
                             bool are_among_choices) const {
    LayoutVariants variants{.all = {}, .fewest_layers = blocks_};
    for (LayoutVariant& dealt : layer_variants(model_, pipeline, stages)) {
      const bool is_among_choices = are_among_choices && dealt.layers.empty();
      PipelineChoice choice = pipeline;
      choice.balance = dealt.balance;
      choice.layers = dealt.layers;
      const std::vector<int> layers = blocks_of_stages(model_, choice, stages, "--pipeline-stages");
      const bool splits = splits_backward(pipeline.schedule);
      const std::size_t known = variants.all.size();
      for (const eager::CheckpointChoice& one :
           checkpointings_of(layers, splits, is_among_choices)) {
        dealt.checkpointing = one;
        variants.all.push_back(dealt);
      }
      if (variants.all.size() > known)
        variants.fewest_layers = std::min(variants.fewest_layers, std::ranges::min(layers));
    }
    return variants;
  }

  static std::vector<eager::CheckpointChoice> checkpointings_of(const std::vector<int>& layers,
                                                                bool splits,
                                                                bool is_among_choices) {
    if (splits && is_among_choices) return {};
    if (splits) return {{}};
    constexpr int after_full = 2, after_every_second = 3;
    if (is_among_choices) return sparse_checkpointings(layers, after_every_second);
    std::vector<eager::CheckpointChoice> all{{}, {.every = 1}, {.every = 1, .selective = true}};
    std::ranges::copy(sparse_checkpointings(layers, after_full), std::back_inserter(all));
    return all;
  }

  /// Why the runtime has no pipeline here at all; empty: it may have.
  std::string why_none() const {
    if (question_.world == 1) return "a pipeline needs 2 ranks or more";
    if (runtime_ == Runtime::native) return {};
    try {
      eager::parallel::llama_shape(model_);
    } catch (const Error& error) {
      return error.parts().what;
    }
    if (question_.training.fine_tuning)
      return "torchtitan trains the whole model, without adapters";
    if (question_.training.loop.optimizer.rule == eager::OptimizerRule::sgd)
      return "torchtitan has Adam and AdamW, not SGD";
    return {};
  }

  bool has(const Choice& choice) {
    if (runtime_ == Runtime::native) return true;
    std::string why = why_not_in_torchtitan(choice.mesh, choice.precision);
    if (choice.mesh.shard == 1 && choice.mesh.replicate > 1)
      why =
          "torchtitan has no DDP beside a pipeline; simulate predicts it where the backward is "
          "whole";
    if (splits_backward(choice.pipeline.schedule) && choice.mesh.shard > 1 &&
        zero_stage(choice.sharding) == 3)
      why =
          "where the backward is split, full_shard inside loses gradients in PyTorch: the "
          "parameters are let go before they are asked for";
    if (!why.empty()) drop(why);
    return why.empty();
  }

  void drop(std::string why) {
    Dropped dropped{fmt::format("{} pipeline", axes_ ? "torchtitan" : name_of(runtime_)),
                    std::move(why)};
    if (std::ranges::find(result_.dropped, dropped) == result_.dropped.end())
      result_.dropped.push_back(std::move(dropped));
  }

  /// Layers by number and, where that is another way to deal them out, by work.
  std::vector<PipelineChoice> balances_of(const WeighedSchedule& schedule, int ranks) const {
    const PipelineChoice by_number{.schedule = schedule.kind,
                                   .stages_per_rank = schedule.stages_per_rank};
    PipelineChoice by_work = by_number;
    by_work.balance = StageBalance::work;
    const int stages = ranks * schedule.stages_per_rank;
    const auto blocks = [&](const PipelineChoice& choice) {
      return blocks_of_stages(model_, choice, stages, "--pipeline-stages");
    };
    if (blocks(by_number) == blocks(by_work)) return {by_number};
    return {by_number, by_work};
  }

  bool runs_again_for_each_weight(const Choice& choice) const {
    return runtime_ != Runtime::native && choice.checkpointing.every > 0 &&
           splits_backward(choice.pipeline.schedule);
  }

  /// Of blocks, and of GPipe's whole stages.
  void add_checkpointings(Choice choice) {
    std::vector<eager::CheckpointChoice> of_blocks{
        {}, {.every = 1}, {.every = 1, .selective = true}};
    // torchtitan's usual one.
    if (axes_) of_blocks.push_back({.every = 2});
    for (const eager::CheckpointChoice& checkpointing : of_blocks) {
      choice.checkpointing = checkpointing;
      if (runs_again_for_each_weight(choice))
        drop(
            "blocks checkpointed where the backward is split: PyTorch runs them again for the "
            "input and for each of their weights");
      else
        add_batches(choice);
    }
    if (runtime_ != Runtime::native || choice.pipeline.schedule != PipelineScheduleKind::gpipe)
      return;
    choice.checkpointing = {};
    for (const auto checkpoint : {PipelineCheckpoint::except_last, PipelineCheckpoint::always}) {
      choice.pipeline.checkpoint = checkpoint;
      add_batches(choice);
    }
  }

  void add_batches(Choice choice) {
    add_batches(std::move(choice), [&](const Choice& one) { result_.choices.push_back(one); });
  }

  /// With each number of micro-batches.
  template <class Add>
  void add_batches(Choice choice, const Add& add) {
    // The ranks of a stage share the step's sequences.
    const std::int64_t copies = std::int64_t{choice.mesh.replicate} * choice.mesh.shard;
    if (sequences_ % copies != 0) {
      has_uneven_sequences_ = true;
      return;
    }
    const std::int64_t sequences = sequences_ / copies;
    const std::int64_t stages =
        std::int64_t{choice.mesh.pipeline} * choice.pipeline.stages_per_rank;
    for (const std::int64_t micro_batches : divisors_of(sequences)) {
      if (micro_batches < stages) continue;
      has_enough_micro_batches_ = true;
      if (micro_batches * stages > most_forwards) {
        has_too_many_forwards_ = true;
        continue;
      }
      choice.micro_batches = static_cast<int>(micro_batches);
      choice.batch = sequences / micro_batches;
      if (has_whole_rounds({.kind = choice.pipeline.schedule,
                            .ranks = choice.mesh.pipeline,
                            .stages_per_rank = choice.pipeline.stages_per_rank,
                            .micro_batches = choice.micro_batches,
                            .options = {}}))
        add(choice);
    }
  }

  void say_what_is_left_out() {
    if (has_too_few_layers_)
      drop(fmt::format(
          "the model's {} layers are too few for some of the stages that {} ranks allow", blocks_,
          question_.world));
    if (has_too_many_forwards_)
      drop(fmt::format(
          "those of more than {} forwards a step (stages x micro-batches) are not weighed",
          most_forwards));
    if (has_uneven_sequences_)
      drop(fmt::format("{} sequences of a step do not divide over the ranks of some stages",
                       sequences_));
    if (result_.choices.empty() && !has_too_few_layers_ && !has_enough_micro_batches_)
      drop("each rank of a stage has fewer sequences a step than there are stages");
  }

  const Model& model_;
  const Question& question_;
  Runtime runtime_;
  const std::vector<TrainingPrecision>& precisions_;
  const std::optional<TorchtitanAxes>& axes_;
  int blocks_;
  std::int64_t sequences_;  ///< of a step
  bool has_too_few_layers_ = false, has_too_many_forwards_ = false;
  bool has_enough_micro_batches_ = false, has_uneven_sequences_ = false;
  Enumeration result_;
};

}  // namespace

Enumeration enumerate_pipelines(const Model& model, const Question& question, Runtime runtime,
                                const std::vector<TrainingPrecision>& precisions,
                                const std::optional<TorchtitanAxes>& axes) {
  return PipelineEnumerator(model, question, runtime, precisions, axes).run();
}

Dropped with_more_micro_batches(std::string strategy) {
  return {std::move(strategy), fmt::format("those of more than {} micro-batches a step are not "
                                           "weighed",
                                           most_micro_batches)};
}

}  // namespace shardscope::planner
