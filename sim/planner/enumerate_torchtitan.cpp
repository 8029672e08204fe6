#include "sim/planner/enumerate_torchtitan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/parallel/chunked_loss.h"
#include "core/pytorch/parallel/model_shape.h"
#include "sim/planner/enumerate_pipelines.h"

namespace shardscope::planner {
namespace {

using S = ShardingStrategy;

constexpr std::array<eager::CheckpointChoice, 4> checkpointings{
    {{}, {.every = 1}, {.every = 1, .selective = true}, {.every = 2}}};

/// Of every question.
const Dropped beside_pipeline{"torchtitan context beside pipeline", "not predicted yet"};
const Dropped of_experts{"torchtitan expert",
                         "the model has no experts that are predicted under torchtitan"};
/// Of every mixture.
const Dropped beside_experts{"torchtitan tensor, context and pipeline beside experts",
                             "not predicted yet"};

constexpr std::array<eager::CheckpointChoice, 3> mixture_checkpointings{
    {{}, {.every = 1}, {.every = 1, .selective = true}}};

/// "1 sequence", "2 sequences".
std::string counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

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
    if (eager::parallel::is_mixture(model_)) {
      add_mixtures();
      return std::move(result_);
    }
    shape_ = eager::parallel::llama_shape(model_);
    sparse_ = sparse_variants();
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
      if (eager::parallel::is_mixture(model_) && question_.config != nullptr)
        return why_no_mixture();
      eager::parallel::llama_shape(model_);
    } catch (const Error& error) {
      return error.parts().what;
    }
    return why_not_trained();
  }

 private:
  std::string why_not_trained() const {
    if (question_.training.fine_tuning)
      return "torchtitan trains the whole model, without adapters";
    if (question_.training.loop.optimizer.rule == eager::OptimizerRule::sgd)
      return "torchtitan has Adam and AdamW, not SGD";
    return {};
  }

  /// Throws Error where torchtitan has no such model.
  std::string why_no_mixture() const {
    eager::parallel::mixture_shape(model_, *question_.config);
    if (question_.training.compiled != CompileScope::none)
      return "compiled mixtures of experts are not predicted under torchtitan";
    if (question_.training.float8 != eager::parallel::Float8Recipe::none)
      return "mixtures of experts in float8 are not predicted under torchtitan";
    if (question_.training.length % eager::parallel::usual_loss_parts != 0)
      return fmt::format(
          "torchtitan computes the loss in {} equal parts of a sequence, and {} do "
          "not divide",
          eager::parallel::usual_loss_parts, counted(question_.training.length, "token"));
    return why_not_trained();
  }

  /// Replicas x shards, with experts over the ranks of a shard.
  void add_mixtures() {
    for (const TrainingPrecision precision : question_.precisions) {
      if (precision == TrainingPrecision::bf16_mixed)
        precisions_.push_back(precision);
      else
        drop(fmt::format("torchtitan, {}", name_of(precision)),
             "mixtures of experts are predicted in bf16_mixed alone");
    }
    const eager::parallel::MixtureShape shape =
        eager::parallel::mixture_shape(model_, *question_.config);
    for (const std::int64_t experts : divisors_of(question_.world))
      if (shape.experts % experts == 0)
        add_grids({.experts = static_cast<int>(experts)});
      else
        drop("torchtitan expert", fmt::format("{} cannot be spread evenly over every divisor "
                                              "of {} ranks",
                                              counted(shape.experts, "expert"), question_.world));
    if (question_.all_layouts) drop("torchtitan, all layouts", "of dense models only");
    drop(beside_experts);
    if (has_uneven_sequences_) drop(uneven_sequences());
  }

  Dropped uneven_sequences() const {
    return {"torchtitan shard",
            fmt::format("{} of a step {} not divide over the ranks that some axes leave",
                        counted(sequences_, "sequence"), sequences_ == 1 ? "does" : "do")};
  }

  void drop(Dropped dropped) {
    if (std::ranges::find(result_.dropped, dropped) == result_.dropped.end())
      result_.dropped.push_back(std::move(dropped));
  }
  void drop(std::string strategy, std::string why) { drop({std::move(strategy), std::move(why)}); }

  /// parallelize_module splits heads and columns, and sequence parallelism the tokens.
  bool has_tensor(int ranks) {
    const auto divides = [&](std::string_view what, std::int64_t size) {
      if (size % ranks == 0) return true;
      drop("torchtitan tensor",
           fmt::format("{} {} not divide over all numbers of ranks that make up {}",
                       counted(size, what), size == 1 ? "does" : "do", question_.world));
      return false;
    };
    if (question_.ranks_per_node > 0 && ranks > question_.ranks_per_node) {
      drop("torchtitan tensor",
           fmt::format("weighed inside a node of {} ranks only: each block waits for its "
                       "collectives; simulate predicts it across nodes",
                       question_.ranks_per_node));
      return false;
    }
    return divides("key and value head", shape_.kv_heads) &&
           divides("attention head", shape_.heads) &&
           divides("feed-forward column", shape_.hidden) &&
           divides("token", question_.training.length);
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
      if (axes.experts > 0 && shard % axes.experts != 0) continue;
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
      for (const TrainingPrecision precision : precisions_) {
        Choice choice{.runtime = Runtime::fsdp2,
                      .sharding = sharding,
                      .mesh = mesh,
                      .prefetch = usual_prefetch(Runtime::fsdp2, sharding),
                      .precision = precision,
                      .torchtitan = axes};
        const auto of = axes.experts > 0
                            ? std::span<const eager::CheckpointChoice>(mixture_checkpointings)
                            : std::span<const eager::CheckpointChoice>(checkpointings);
        for (const eager::CheckpointChoice& checkpointing : of) {
          choice.checkpointing = checkpointing;
          add_batches(choice, [&](const Choice& one) { result_.choices.push_back(one); });
        }
        choice.checkpointing = {};
        if (axes.experts == 0 && question_.all_layouts && !sparse_->all.empty())
          add_batches(choice, [&](const Choice& one) { result_.groups.push_back({one, sparse_}); });
      }
  }

  /// Every third and further block checkpointed.
  std::shared_ptr<const LayoutVariants> sparse_variants() const {
    const std::array layers{static_cast<int>(shape_.layers)};
    LayoutVariants variants{.all = {}, .fewest_layers = layers.front()};
    constexpr int after_every_second = 3;
    for (const eager::CheckpointChoice& sparse : sparse_checkpointings(layers, after_every_second))
      variants.all.push_back({.checkpointing = sparse});
    return std::make_shared<const LayoutVariants>(std::move(variants));
  }

  /// With each number of micro-batches.
  template <class Add>
  void add_batches(Choice choice, const Add& add) {
    const std::int64_t sequences = sequences_ / (choice.mesh.replicate * choice.mesh.shard);
    for (const std::int64_t micro_batches : divisors_of(sequences)) {
      if (micro_batches > most_micro_batches) {
        drop(with_more_micro_batches("torchtitan"));
        return;
      }
      choice.batch = sequences / micro_batches;
      choice.micro_batches = static_cast<int>(micro_batches);
      add(choice);
    }
  }

  void add_pipelines(TorchtitanAxes axes) {
    Question inside = question_;
    inside.world = question_.world / axes.tensor;
    if (inside.world == 1) return;
    Enumeration found =
        enumerate_pipelines(model_, inside, Runtime::fsdp2, precisions_, std::optional(axes));
    std::ranges::move(found.choices, std::back_inserter(result_.choices));
    std::ranges::move(found.groups, std::back_inserter(result_.groups));
    for (Dropped& one : found.dropped) drop(std::move(one.strategy), std::move(one.why));
  }

  void say_what_is_left_out() {
    if (has_odd_context_)
      drop("torchtitan context",
           fmt::format("{} of a sequence {} not divide into two equal parts for each rank",
                       counted(question_.training.length, "token"),
                       question_.training.length == 1 ? "does" : "do"));
    if (has_uneven_sequences_) drop(uneven_sequences());
    if (question_.pipelines) drop(beside_pipeline);
    drop(of_experts);
  }

  const Model& model_;
  const Question& question_;
  std::int64_t sequences_;  ///< of a step
  eager::parallel::LlamaShape shape_;
  std::shared_ptr<const LayoutVariants> sparse_;
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

/// "tensor: 4 key and value heads do not ...; shard: ...", without what no layout ever has.
std::string reasons_of(const std::vector<Dropped>& dropped) {
  std::string text;
  for (const Dropped& one : dropped) {
    if (one == beside_pipeline || one == of_experts || one == beside_experts) continue;
    std::string_view axis = one.strategy;
    if (constexpr std::string_view prefix = "torchtitan "; axis.starts_with(prefix))
      axis.remove_prefix(prefix.size());
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", axis, one.why);
  }
  return text;
}

Error has_no_layout(const Question& question, const std::vector<Dropped>& dropped) {
  const std::int64_t length = question.training.length;
  const std::int64_t sequences = question.tokens_per_batch / length;
  std::string way_out = fmt::format("give --tokens-per-batch {}",
                                    (sequences / question.world + 1) * question.world * length);
  if (const std::string worlds = worlds_that_share(sequences, question.world); !worlds.empty())
    way_out += ", or " + worlds;
  return Error({.where = "--world",
                .what = fmt::format("{} ranks have no layout under torchtitan: {}", question.world,
                                    reasons_of(dropped)),
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
  if (eager::parallel::is_mixture(model) &&
      std::ranges::find(question.precisions, TrainingPrecision::bf16_mixed) ==
          question.precisions.end())
    return Error({.where = "--precision",
                  .what = "mixtures of experts are predicted in bf16_mixed alone under torchtitan",
                  .way_out = "give bf16_mixed"});
  return has_no_layout(question, TorchtitanEnumerator(model, question).run().dropped);
}

}  // namespace shardscope::planner
