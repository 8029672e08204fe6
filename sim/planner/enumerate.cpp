#include "sim/planner/enumerate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/model/exported_step.h"
#include "core/native/native_abilities.h"
#include "sim/planner/enumerate_pipelines.h"
#include "sim/planner/enumerate_torchtitan.h"

namespace shardscope::planner {
namespace {

using S = ShardingStrategy;

constexpr S all_strategies[] = {S::no_shard,   S::zero1,        S::shard_grad_op,
                                S::full_shard, S::hybrid_shard, S::hybrid_shard_zero2};

/// A strategy that a runtime does not have.
struct Absent {
  Runtime runtime;
  S sharding;
  std::string_view why;
};
constexpr Absent absent[] = {
    {Runtime::fsdp1, S::zero1, "FSDP shards gradients with the optimizer states: shard_grad_op"},
    {Runtime::fsdp2, S::no_shard, "fully_shard always shards: ddp keeps everything whole"},
    {Runtime::fsdp2, S::zero1, "FSDP shards gradients with the optimizer states: shard_grad_op"},
    {Runtime::ddp, S::zero1,
     "no configuration file turns ZeroRedundancyOptimizer on: deepspeed zero1 does the same"},
    {Runtime::ddp, S::shard_grad_op, "DDP keeps everything whole"},
    {Runtime::ddp, S::full_shard, "DDP keeps everything whole"},
    {Runtime::ddp, S::hybrid_shard, "DDP keeps everything whole"},
    {Runtime::ddp, S::hybrid_shard_zero2, "DDP keeps everything whole"},
    {Runtime::deepspeed, S::no_shard, "stage 0 keeps everything whole: ddp does the same"},
    {Runtime::deepspeed, S::hybrid_shard_zero2,
     "only stage 3 has a second copy inside a node (zero_hpz_partition_size)"}};

template <class Value>
bool contains(const std::vector<Value>& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

/// Where reducing each micro-batch's gradients keeps less of them and the runtime can.
bool may_reduce_often(const Choice& choice) {
  const bool keeps_whole = choice.sharding == S::no_shard || choice.sharding == S::zero1;
  switch (choice.runtime) {
    case Runtime::fsdp2:
      return !keeps_whole;
    case Runtime::native:  // which copies gradients to the host once
    case Runtime::fsdp1:
      // FullyShardedDataParallel's documentation: no accumulation outside no_sync() with offload.
      return !keeps_whole && choice.offload == Offload::none;
    case Runtime::ddp:
    case Runtime::deepspeed:  // its engine decides
      return false;
  }
  return false;
}

std::vector<Offload> offloads_of(Runtime runtime, S sharding) {
  if (runtime == Runtime::ddp) return {Offload::none};
  if (runtime == Runtime::native) {
    if (sharding == S::full_shard || sharding == S::hybrid_shard)
      return {Offload::none, Offload::optimizer, Offload::all};
    return {Offload::none, Offload::optimizer};
  }
  if (runtime != Runtime::deepspeed) {
    if (sharding == S::no_shard) return {Offload::none};
    return {Offload::none, Offload::all};
  }
  if (sharding == S::full_shard) return {Offload::none, Offload::optimizer, Offload::all};
  return {Offload::none, Offload::optimizer};
}

/// Walks over everything that a question leaves open.
class Enumerator {
 public:
  Enumerator(const Model& model, const Question& question)
      : model_(model),
        question_(question),
        blocks_(static_cast<int>(eager::checkpointing_of(model, {.every = 1}).modules.size())) {
    check_tokens(question);
    if (!question.runtimes.empty()) sequences_ = sequences_per_rank(question);
  }

  Enumeration run() {
    for (const Runtime runtime : question_.runtimes) add(runtime);
    if (question_.torchtitan) add(enumerate_torchtitan(model_, question_));
    say_where_pipelines_are();
    say_where_layers_are_divided();
    return std::move(result_);
  }

 private:
  void drop(Dropped dropped) {
    if (!contains(result_.dropped, dropped)) result_.dropped.push_back(std::move(dropped));
  }
  void drop(std::string strategy, std::string why) { drop({std::move(strategy), std::move(why)}); }

  void add(Runtime runtime) {
    const std::string name(name_of(runtime));
    if (runtime == Runtime::native) {
      if (!model_.decoder) return drop(name, "the model cannot be run: " + model_.why_no_decoder);
      drop_what_native_lacks();
    }
    if (blocks_ == 0 && runtime != Runtime::native)
      drop(name + ", checkpointing", "the model names no blocks (_no_split_modules)");
    for (const S sharding : all_strategies) {
      if (const std::string why = why_not(runtime, sharding); !why.empty())
        drop(fmt::format("{} {}", name, name_of(sharding)), why);
      else
        add(runtime, sharding);
    }
    if (runtime == Runtime::fsdp2)
      for (const int tensor : question_.tensor) add_divided(tensor);
    const bool has_pipelines =
        (runtime == Runtime::native && question_.pipelines) ||
        (runtime == Runtime::fsdp2 && question_.torchtitan_pipelines && !question_.torchtitan);
    if (has_pipelines) add(enumerate_pipelines(model_, question_, runtime, precisions_of(runtime)));
  }

  /// Inside one node sharding by data is enough, as a rule.
  void say_where_layers_are_divided() {
    const bool is_asked = !question_.tensor.empty() || question_.torchtitan;
    const bool has_nodes =
        question_.ranks_per_node > 0 && question_.world > question_.ranks_per_node;
    if (is_asked || !has_nodes || !contains(question_.runtimes, Runtime::fsdp2)) return;
    drop("tensor, context and expert parallelism",
         "only where --tensor (fsdp2) or --runtime torchtitan or megatron asks for it");
  }

  void say_where_pipelines_are() {
    if (!question_.pipelines || contains(question_.runtimes, Runtime::native) ||
        question_.torchtitan)
      return;
    if (!contains(question_.runtimes, Runtime::fsdp2))
      drop("pipelines",
           "only those of torchtitan (--runtime fsdp2) and of the native runtime (--runtime "
           "native) are predicted");
    else if (!question_.torchtitan_pipelines)
      drop("fsdp2 pipeline", "takes long to weigh: only where --strategy asks for pipeline");
  }

  void add(Enumeration found) {
    std::ranges::move(found.choices, std::back_inserter(result_.choices));
    std::ranges::move(found.groups, std::back_inserter(result_.groups));
    for (Dropped& one : found.dropped) drop(std::move(one.strategy), std::move(one.why));
  }

  void drop_what_native_lacks() {
    const auto without = [&](const std::string& what) {
      drop("native, " + what, "`train` cannot run it at this commit");
    };
    for (const TrainingPrecision precision : question_.precisions)
      if (!native_has(precision)) without(std::string(name_of(precision)));
  }

  static bool native_has(TrainingPrecision precision) {
    const auto& has = native_abilities().precisions;
    return std::any_of(has.begin(), has.end(),
                       [&](Precision known) { return name_of(known) == name_of(precision); });
  }

  /// Why a runtime has no such strategy here; empty: it has.
  std::string why_not(Runtime runtime, S sharding) const {
    for (const Absent& row : absent)
      if (row.runtime == runtime && row.sharding == sharding) return std::string(row.why);
    if (runtime == Runtime::native && !contains(native_abilities().strategies, sharding))
      return "`train` cannot run it at this commit";
    const bool shards = sharding != S::no_shard;
    // Offloading is what they are of use for on one rank. DeepSpeed's stage 1 does there what stage
    // 2 does.
    const bool alone = sharding == S::full_shard ||
                       (runtime == Runtime::deepspeed && sharding == S::shard_grad_op);
    if (question_.world == 1 && shards && (!alone || is_hybrid(sharding)))
      return "one rank has nobody to share with";
    if (is_hybrid(sharding) && meshes_of(sharding, question_.world).empty())
      return fmt::format("{} ranks are no grid of replicas and shards", question_.world);
    return {};
  }

  void add(Runtime runtime, S sharding) {
    for (const Mesh& mesh : meshes_of(sharding, question_.world))
      for (const TrainingPrecision precision : precisions_of(runtime))
        for (const int blocks : units_of(runtime))
          for (const Prefetch prefetch : prefetches_of(runtime, sharding, blocks))
            for (const Offload offload : offloads_of(runtime, sharding))
              for (const eager::CheckpointChoice& checkpointing : checkpointings(runtime)) {
                if (shares_with_nobody(sharding, offload)) continue;
                add_batches({.runtime = runtime,
                             .sharding = sharding,
                             .mesh = mesh,
                             .blocks_per_unit = blocks,
                             .prefetch = prefetch,
                             .checkpointing = checkpointing,
                             .offload = offload,
                             .precision = precision});
              }
  }

  /// Of one rank nothing is sharded: of use is the offload alone, unless nothing else was asked
  /// for.
  bool shares_with_nobody(S sharding, Offload offload) const {
    return question_.world == 1 && sharding != S::no_shard && offload == Offload::none &&
           std::ranges::any_of(question_.runtimes, [](Runtime runtime) {
             return runtime == Runtime::ddp || runtime == Runtime::fsdp1 ||
                    runtime == Runtime::native;
           });
  }

  /// Why so many ranks cannot divide the layers; empty: they can.
  std::string why_not_divided(int tensor) const {
    if (question_.world % tensor != 0)
      return fmt::format("{} ranks are no multiple of {}", question_.world, tensor);
    if (question_.ranks_per_node > 0 && tensor > question_.ranks_per_node)
      return fmt::format("a node has {} ranks", question_.ranks_per_node);
    if (question_.training.fine_tuning) return "not predicted with adapters";
    if (question_.training.compiled != CompileScope::none) return "not predicted compiled";
    if (question_.training.float8 != eager::parallel::Float8Recipe::none)
      return "not predicted in float8";
    for (const char* key : {"num_attention_heads", "num_key_value_heads"}) {
      const auto heads = question_.config ? question_.config->find(key) : std::nullopt;
      if (heads && !heads->is_null() && heads->integer() % tensor != 0)
        return fmt::format("{} {} do not divide", key, heads->integer());
    }
    try {
      tensor_plan_of(model_);
    } catch (const Error& error) {
      return error.parts().what;
    }
    return {};
  }

  /// The rest is the model's own fsdp_plan.
  void add_divided(int tensor) {
    if (const std::string why = why_not_divided(tensor); !why.empty())
      return drop(fmt::format("fsdp2 tensor {}", tensor), why);
    const int others = question_.world / tensor;
    std::vector<std::pair<S, Mesh>> meshes{{S::full_shard, {.shard = others}}};
    for (const Mesh& mesh : meshes_of(S::hybrid_shard, others))
      meshes.emplace_back(S::hybrid_shard, mesh);
    const std::int64_t of_a_rank = std::exchange(sequences_, sequences_ * tensor);
    for (const auto& [sharding, mesh] : meshes)
      for (const TrainingPrecision precision : precisions_of(Runtime::fsdp2)) {
        if (precision == TrainingPrecision::fp16_mixed) continue;
        for (const eager::CheckpointChoice& checkpointing : checkpointings(Runtime::fsdp2)) {
          if (checkpointing.selective) continue;
          add_batches({.runtime = Runtime::fsdp2,
                       .sharding = sharding,
                       .mesh = mesh,
                       .tensor = tensor,
                       .prefetch = Prefetch::pre,
                       .checkpointing = checkpointing,
                       .precision = precision});
        }
      }
    sequences_ = of_a_rank;
  }

  void add_batches(Choice choice) {
    for (const std::int64_t micro_batches : divisors_of(sequences_)) {
      if (micro_batches > most_micro_batches) {
        drop(with_more_micro_batches(std::string(name_of(choice.runtime))));
        return;
      }
      choice.batch = sequences_ / micro_batches;
      if (model_.step && !model_.step->has(choice.batch, question_.training.length)) continue;
      choice.micro_batches = static_cast<int>(micro_batches);
      choice.reduces_every_micro_batch = false;
      result_.choices.push_back(choice);
      if (micro_batches == 1 || choice.tensor > 1 || !may_reduce_often(choice)) continue;
      choice.reduces_every_micro_batch = true;
      result_.choices.push_back(choice);
    }
  }

  std::vector<TrainingPrecision> precisions_of(Runtime runtime) {
    std::vector<TrainingPrecision> result;
    for (const TrainingPrecision precision : question_.precisions) {
      if (runtime == Runtime::native && !native_has(precision)) continue;
      if (runtime == Runtime::deepspeed && precision == TrainingPrecision::bf16) {
        drop("deepspeed, bf16", "its optimizer keeps float32 masters: it is bf16_mixed");
        continue;
      }
      result.push_back(precision);
    }
    return result;
  }

  /// Powers of two of blocks, and all in one.
  std::vector<int> units_of(Runtime runtime) const {
    const bool joins = runtime == Runtime::native || runtime == Runtime::fsdp2;
    if (runtime == Runtime::ddp || runtime == Runtime::deepspeed || blocks_ == 0) return {1};
    const auto& tuning = question_.training.fine_tuning;
    if (runtime == Runtime::fsdp1 && tuning && tuning->adapter) return {1};
    if (!joins) return {1, 0};
    std::vector<int> result{1};
    for (const int blocks : {2, 4})
      if (blocks < blocks_) result.push_back(blocks);
    result.push_back(0);
    return result;
  }

  /// transformers, which checkpoints a fine-tuned model's layers without FSDP, has none selective.
  std::vector<eager::CheckpointChoice> checkpointings(Runtime runtime) const {
    if (blocks_ == 0) return {{}};
    std::vector<eager::CheckpointChoice> result{{}, {.every = 1}};
    const bool is_fsdp = runtime == Runtime::fsdp1 || runtime == Runtime::fsdp2;
    if (!question_.training.fine_tuning || is_fsdp)
      result.push_back({.every = 1, .selective = true});
    for (int every = 2; every < blocks_; every *= 2) result.push_back({.every = every});
    return result;
  }

  const Model& model_;
  const Question& question_;
  int blocks_;
  std::int64_t sequences_ = 0;  ///< of a rank; not of torchtitan
  Enumeration result_;
};

/// Multiples of `unit` next to `tokens`, for people.
std::string nearest_multiples(std::int64_t tokens, std::int64_t unit) {
  const std::int64_t below = tokens / unit * unit;
  if (below == 0) return fmt::format("{} would", unit);
  return fmt::format("{} or {} would", below, below + unit);
}

}  // namespace

std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    low.push_back(d);
    if (d != number / d) high.push_back(number / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

bool shares_evenly(const Question& question, int world) {
  const bool is_torchtitan_alone = question.torchtitan && question.runtimes.empty();
  const std::int64_t unit = question.training.length * (is_torchtitan_alone ? 1 : world);
  return question.tokens_per_batch >= 1 && question.tokens_per_batch % unit == 0;
}

std::int64_t sequences_per_rank(const Question& question) {
  const std::int64_t length = question.training.length;
  const std::int64_t unit = length * question.world;
  if (question.tokens_per_batch >= 1 && question.tokens_per_batch % unit == 0)
    return question.tokens_per_batch / unit;
  std::string way_out = nearest_multiples(question.tokens_per_batch, unit);
  const std::int64_t sequences = question.tokens_per_batch / length;
  if (sequences >= 1 && question.tokens_per_batch % length == 0) {
    std::int64_t ranks = 1;
    for (const std::int64_t divisor : divisors_of(sequences))
      if (divisor < question.world) ranks = divisor;
    way_out += fmt::format(", and so would --world {}", ranks);
  }
  throw Error(
      {.where = "--tokens-per-batch",
       .what = fmt::format("{} tokens are not a whole number of sequences of {} for each of "
                           "{} rank{}: no strategy divides them",
                           question.tokens_per_batch, length, question.world,
                           question.world == 1 ? "" : "s"),
       .way_out = std::move(way_out)});
}

void check_tokens(const Question& question) {
  // Far more than steps have. Counts of bytes and of operations stay below 2^63.
  constexpr std::int64_t most_sequences = std::int64_t{1} << 20;
  const std::int64_t sequences = question.tokens_per_batch / question.training.length;
  if (sequences > most_sequences)
    throw Error(
        {.where = "--tokens-per-batch",
         .what = fmt::format("{} tokens are {} sequences of {} a step: more than {}",
                             question.tokens_per_batch, sequences, question.training.length,
                             most_sequences),
         .way_out = fmt::format("give {} at most", most_sequences * question.training.length)});
  if (shares_evenly(question, question.world)) return;
  if (!question.torchtitan || !question.runtimes.empty()) {
    sequences_per_rank(question);
    return;
  }
  const std::int64_t length = question.training.length;
  throw Error({.where = "--tokens-per-batch",
               .what = fmt::format("{} tokens are not a whole number of sequences of {}",
                                   question.tokens_per_batch, length),
               .way_out = nearest_multiples(question.tokens_per_batch, length)});
}

std::vector<Mesh> meshes_of(S sharding, int world) {
  if (sharding == S::no_shard) return {{.replicate = world}};
  if (!is_hybrid(sharding)) return {{.shard = world}};
  std::vector<Mesh> meshes;
  for (const std::int64_t shard : divisors_of(world))
    if (shard > 1 && shard < world)
      meshes.push_back(
          {.replicate = world / static_cast<int>(shard), .shard = static_cast<int>(shard)});
  return meshes;
}

std::vector<Prefetch> prefetches_of(Runtime runtime, S sharding, int blocks_per_unit) {
  const bool gathers_again = sharding == S::full_shard || sharding == S::hybrid_shard;
  const bool several = blocks_per_unit > 0;
  switch (runtime) {
    case Runtime::native:
      if (gathers_again && several) return {Prefetch::both, Prefetch::none};
      return {Prefetch::both};
    case Runtime::fsdp1:
      if (sharding == S::no_shard || !several) return {Prefetch::pre};
      if (!gathers_again) return {Prefetch::pre, Prefetch::both};
      return {Prefetch::pre, Prefetch::both, Prefetch::post, Prefetch::none};
    case Runtime::fsdp2:
      return {Prefetch::pre};
    case Runtime::ddp:
      return {Prefetch::none};
    case Runtime::deepspeed:
      return {Prefetch::pre, Prefetch::none};
  }
  return {};
}

Enumeration enumerate(const Model& model, const Question& question) {
  return Enumerator(model, question).run();
}

}  // namespace shardscope::planner
