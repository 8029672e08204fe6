#include "sim/planner/enumerate_torchtitan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/parallel/model_shape.h"
#include "sim/planner/enumerate_pipelines.h"

namespace shardscope::planner {
namespace {

using S = ShardingStrategy;

constexpr std::array<eager::CheckpointChoice, 4> checkpointings{
    {{}, {.every = 1}, {.every = 1, .selective = true}, {.every = 2}}};

class TorchtitanEnumerator {
 public:
  TorchtitanEnumerator(const Model& model, const Question& question)
      : model_(model),
        question_(question),
        sequences_(question.tokens_per_batch / question.training.length) {}

  Enumeration run() {
    if (const std::string why = why_none(); !why.empty()) {
      drop("torchtitan", why);
      return std::move(result_);
    }
    shape_ = eager::parallel::llama_shape(model_);
    for (const TrainingPrecision precision : question_.precisions) {
      if (precision == TrainingPrecision::fp16_mixed)
        drop("torchtitan, fp16_mixed", "torchtitan has no loss scaler");
      else
        precisions_.push_back(precision);
    }
    for (const std::int64_t tensor : divisors_of(question_.world))
      if (has_tensor(static_cast<int>(tensor))) add_tensor(static_cast<int>(tensor));
    say_what_is_left_out();
    return std::move(result_);
  }

  /// Why there are none, whatever the sizes; empty: there may be.
  std::string why_none() const {
    if (question_.world == 1) return "it shares a training among 2 ranks or more";
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

 private:
  void drop(std::string strategy, std::string why) {
    Dropped dropped{std::move(strategy), std::move(why)};
    if (std::ranges::find(result_.dropped, dropped) == result_.dropped.end())
      result_.dropped.push_back(std::move(dropped));
  }

  /// parallelize_module splits heads and columns, and sequence parallelism the tokens.
  bool has_tensor(int ranks) {
    const auto divides = [&](std::string_view what, std::int64_t size) {
      if (size % ranks == 0) return true;
      drop("torchtitan tensor", fmt::format("{} {} do not divide over all numbers of ranks that "
                                            "make up {}",
                                            size, what, question_.world));
      return false;
    };
    if (question_.ranks_per_node > 0 && ranks > question_.ranks_per_node) {
      drop("torchtitan tensor",
           fmt::format("weighed inside a node of {} ranks only: each block waits for its "
                       "collectives; simulate predicts it across nodes",
                       question_.ranks_per_node));
      return false;
    }
    return divides("key and value heads", shape_.kv_heads) &&
           divides("attention heads", shape_.heads) &&
           divides("columns of the feed-forward", shape_.hidden) &&
           divides("tokens of a sequence", question_.training.length);
  }

  void add_tensor(int tensor) {
    const int ranks = question_.world / tensor;
    for (const std::int64_t context : divisors_of(ranks))
      if (has_context(static_cast<int>(context), tensor))
        add_grids({.context = static_cast<int>(context), .tensor = tensor});
    if (question_.pipelines) add_pipelines({.context = 1, .tensor = tensor});
  }

  /// A rank has a part of the sequence's head and one of its tail.
  bool has_context(int context, int tensor) {
    if (context == 1) return true;
    const std::int64_t length = question_.training.length;
    const bool divides =
        length % (2 * std::int64_t{context}) == 0 && length / context % tensor == 0;
    if (!divides) has_odd_context_ = true;
    return divides;
  }

  /// Without a pipeline data is sharded over shard x context ranks.
  void add_grids(TorchtitanAxes axes) {
    const int copies = question_.world / axes.ranks();
    if (sequences_ % copies != 0) {
      has_uneven_sequences_ = true;
      return;
    }
    for (const std::int64_t shard : divisors_of(copies)) {
      const Mesh mesh{.replicate = copies / static_cast<int>(shard),
                      .shard = static_cast<int>(shard)};
      if (mesh.shard == 1 && mesh.replicate > 1) {
        drop("torchtitan replicate",
             "over one shard it is DDP, which is predicted for transformers' models: --runtime "
             "ddp");
      } else if (mesh.shard * axes.context == 1) {
        drop("torchtitan tensor",
             "alone, without ranks that shard data: torchtitan then leaves FSDP2 and its mixed "
             "precision out, which is not predicted");
      } else {
        add_shardings(mesh, axes);
      }
    }
  }

  void add_shardings(const Mesh& mesh, const TorchtitanAxes& axes) {
    const bool hybrid = mesh.replicate > 1;
    for (const S sharding : {hybrid ? S::hybrid_shard : S::full_shard,
                             hybrid ? S::hybrid_shard_zero2 : S::shard_grad_op})
      for (const TrainingPrecision precision : precisions_)
        for (const eager::CheckpointChoice& checkpointing : checkpointings)
          add_batches({.runtime = Runtime::fsdp2,
                       .sharding = sharding,
                       .mesh = mesh,
                       .prefetch = usual_prefetch(Runtime::fsdp2, sharding),
                       .checkpointing = checkpointing,
                       .precision = precision,
                       .torchtitan = axes});
  }

  void add_batches(Choice choice) {
    const std::int64_t sequences = sequences_ / (choice.mesh.replicate * choice.mesh.shard);
    for (const std::int64_t micro_batches : divisors_of(sequences)) {
      choice.batch = sequences / micro_batches;
      choice.micro_batches = static_cast<int>(micro_batches);
      result_.choices.push_back(choice);
    }
  }

  void add_pipelines(TorchtitanAxes axes) {
    Question inside = question_;
    inside.world = question_.world / axes.tensor;
    if (inside.world == 1) return;
    Enumeration found =
        enumerate_pipelines(model_, inside, Runtime::fsdp2, precisions_, std::optional(axes));
    std::ranges::move(found.choices, std::back_inserter(result_.choices));
    for (Dropped& one : found.dropped) drop(std::move(one.strategy), std::move(one.why));
  }

  void say_what_is_left_out() {
    if (has_odd_context_)
      drop("torchtitan context",
           fmt::format("{} tokens of a sequence do not divide over all numbers of ranks",
                       question_.training.length));
    if (has_uneven_sequences_)
      drop("torchtitan shard",
           fmt::format("{} sequences of a step are too few, or do not divide, over the ranks "
                       "that some axes leave",
                       sequences_));
    if (question_.pipelines) drop("torchtitan context beside pipeline", "not predicted yet");
    drop("torchtitan expert", "the model has no experts that are predicted under torchtitan");
  }

  const Model& model_;
  const Question& question_;
  std::int64_t sequences_;  ///< of a step
  eager::parallel::LlamaShape shape_;
  std::vector<TrainingPrecision> precisions_;
  bool has_odd_context_ = false, has_uneven_sequences_ = false;
  Enumeration result_;
};

}  // namespace

Enumeration enumerate_torchtitan(const Model& model, const Question& question) {
  return TorchtitanEnumerator(model, question).run();
}

namespace {

/// Ranks next to `world` that share so many sequences: each a shard.
std::string worlds_that_share(std::int64_t sequences, int world) {
  std::int64_t below = 0, above = 0;
  for (const std::int64_t ranks : divisors_of(sequences)) {
    if (ranks > 1 && ranks < world) below = ranks;
    if (ranks > world && above == 0) above = ranks;
  }
  if (below > 0 && above > 0) return fmt::format("--world {} or {}", below, above);
  return below + above > 0 ? fmt::format("--world {}", std::max(below, above)) : std::string();
}

Error does_not_divide(const Model& model, const Question& question) {
  const std::int64_t length = question.training.length;
  const std::int64_t sequences = question.tokens_per_batch / length;
  std::string way_out = fmt::format("give --tokens-per-batch {}",
                                    (sequences / question.world + 1) * question.world * length);
  if (const std::string worlds = worlds_that_share(sequences, question.world); !worlds.empty())
    way_out += ", or " + worlds;
  return Error(
      {.where = "--world",
       .what = fmt::format("{} ranks have no layout under torchtitan: {} sequences a step, {} "
                           "tokens of a sequence and {} key and value heads do not divide over "
                           "them",
                           question.world, sequences, length,
                           eager::parallel::llama_shape(model).kv_heads),
       .way_out = std::move(way_out)});
}

}  // namespace

Error no_layout_of_torchtitan(const Model& model, const Question& question) {
  const std::string why = TorchtitanEnumerator(model, question).why_none();
  if (question.world == 1)
    return Error({.where = "--world",
                  .what = "torchtitan shares a training among 2 ranks or more, and there is 1",
                  .way_out = "give --world 2 or more, or another --runtime"});
  if (!why.empty())
    return Error({.where = "--runtime torchtitan", .what = why, .way_out = "give another one"});
  if (std::ranges::all_of(question.precisions, [](TrainingPrecision precision) {
        return precision == TrainingPrecision::fp16_mixed;
      }))
    return Error({.where = "--precision",
                  .what = "torchtitan has no loss scaler, which fp16_mixed needs",
                  .way_out = "give bf16_mixed, bf16 or fp32"});
  return does_not_divide(model, question);
}

}  // namespace shardscope::planner
