#include "sim/planner/bounds.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <type_traits>

#include "core/base/error.h"
#include "core/native/zero_paper.h"
#include "core/schedule/model_states.h"
#include "sim/engine/clock_options.h"
#include "sim/planner/estimate.h"
#include "sim/planner/parallel.h"
#include "sim/planner/pipeline_bounds.h"
#include "sim/planner/plain_step.h"
#include "sim/planner/torchtitan_floor.h"
#include "sim/planner/torchtitan_pipeline.h"

namespace shardscope::planner {
namespace {

using S = ShardingStrategy;

/// What states and collectives depend on, whatever is computed.
struct ShardingKey {
  Runtime runtime = Runtime::native;
  S sharding = S::full_shard;
  int replicate = 1, shard = 1;
  bool torchtitan = false;
  int context = 1, tensor = 1, experts = 0;
  int blocks_per_unit = 1;
  bool reduces_every_micro_batch = false;
  bool overlaps = false;  ///< DeepSpeed's overlap_comm
  Offload offload = Offload::none;
  TrainingPrecision precision = TrainingPrecision::fp32;
  auto operator<=>(const ShardingKey&) const = default;
};

ShardingKey sharding_key(const Choice& choice) {
  return {.runtime = choice.runtime,
          .sharding = choice.sharding,
          .replicate = choice.mesh.replicate,
          .shard = choice.mesh.shard,
          .torchtitan = choice.torchtitan.has_value(),
          .context = context_ranks(choice),
          .tensor = tensor_ranks(choice),
          .experts = has_experts(choice) ? expert_ranks(choice) : 0,
          .blocks_per_unit = choice.blocks_per_unit,
          .reduces_every_micro_batch = choice.reduces_every_micro_batch,
          .overlaps = choice.runtime == Runtime::deepspeed && choice.prefetch != Prefetch::none,
          .offload = choice.offload,
          .precision = choice.precision};
}

/// Collectives of one step, by what runs at once where they are not serial.
struct Communication {
  Duration gathers, reductions, between_replicas;
  Duration second_copy;  ///< gathers of it, whose communicator has other links
  /// Of experts that are spread, which have communicators of their own.
  Duration expert_gathers, expert_reductions, between_expert_replicas;
};

/// What a sharding adds to a step.
struct PerStep {
  Communication communication;
  Duration exposed;  ///< of it, beside which nothing can be computed
  Duration serial;   ///< of it, on the stream that computes
  Duration copies;   ///< kernels around the collectives, and sums of gradients
  Duration moves;    ///< copies around them on the stream that computes, which nothing slows
};

struct ShardingBounds {
  ModelStates states;    ///< on the device
  Bytes gathered;        ///< parameters and buffers beside activations when these take the most
  Bytes kept_gradients;  ///< that stay whole between micro-batches
  PerStep each;          ///< in every micro-batch
  PerStep further;       ///< in every micro-batch but the first
  PerStep once;          ///< in the last one
  Duration update;       ///< of the optimizer
  Duration host;         ///< in every micro-batch, beside what the model's operators take
  Duration host_once;    ///< the same in the last one
};

Group group_of(int stride, int size) {
  return {.name = {}, .ranks = Ranks::spaced(0, stride, static_cast<std::size_t>(size))};
}

bool shards_parameters(S sharding) {
  return sharding == S::full_shard || sharding == S::hybrid_shard;
}

/// Elements of torchtitan's units: each block's, and at last the root's.
std::vector<std::int64_t> torchtitan_units(const Model& model) {
  std::vector<std::int64_t> units;
  std::int64_t root = 0;
  std::map<std::string_view, std::size_t> blocks;
  for (const DecoderBlock& block : model.decoder->blocks)
    blocks.emplace(block.module, blocks.size());
  units.resize(blocks.size());
  for (const Parameter& parameter : model.parameters) {
    const std::string_view name = parameter.name;
    // "model.layers.3" of "model.layers.3.mlp.up_proj.weight", at one of its dots.
    auto block = blocks.end();
    for (auto dot = name.find('.'); dot != name.npos && block == blocks.end();
         dot = name.find('.', dot + 1))
      block = blocks.find(name.substr(0, dot));
    (block == blocks.end() ? root : units[block->second]) += parameter.elements();
  }
  units.push_back(root);
  return units;
}

/// Elements of a mixture's units: embedding, norm with output, and what a block has beside its
/// experts and of them.
struct MixtureUnits {
  std::int64_t embedding = 0, head = 0;
  std::vector<std::int64_t> dense, experts;  ///< by block
};

MixtureUnits mixture_units(const Model& model) {
  constexpr std::string_view layers = ".layers.", experts = ".mlp.experts.";
  MixtureUnits units;
  for (const Parameter& parameter : model.parameters) {
    const std::string_view name = parameter.name;
    const auto at = name.find(layers);
    if (at == name.npos) {
      (name.find("embed") == name.npos ? units.head : units.embedding) += parameter.elements();
      continue;
    }
    std::size_t block = 0;
    std::from_chars(name.data() + at + layers.size(), name.data() + name.size(), block);
    if (units.dense.size() <= block) units.dense.resize(block + 1);
    units.experts.resize(units.dense.size());
    const bool is_expert = name.find(experts) != name.npos;
    (is_expert ? units.experts : units.dense)[block] += parameter.elements();
  }
  return units;
}

bool gathers_float8(const Choice& choice, const TrialInputs& inputs) {
  return choice.runtime == Runtime::fsdp2 &&
         eager::parallel::float8_settings(inputs.training.float8, true).fsdp_all_gather;
}

class ShardingBounder {
 public:
  ShardingBounder(const Choice& choice, const TrialInputs& inputs)
      : choice_(choice),
        inputs_(inputs),
        shards_(group_of(1, choice.mesh.shard)),
        replicas_(group_of(choice.mesh.shard, choice.mesh.replicate)),
        world_(group_of(1, choice.mesh.world())),
        dtype_(compute_dtype(choice.precision).value_or(parameter_dtype(choice.precision))),
        gathered_dtype_(gathers_float8(choice, inputs) ? Dtype::uint8 : dtype_) {
    for (const Parameter& parameter : inputs.model.parameters) {
      elements_ += parameter.elements();
      if (parameter.trainable) trainable_ += parameter.elements();
    }
  }

  ShardingBounds bounds() {
    ShardingBounds result;
    if (choice_.torchtitan) {
      if (has_experts(choice_))
        mixture(result);
      else
        torchtitan(result);
      return result;
    }
    switch (choice_.runtime) {
      case Runtime::native:
        native(result);
        break;
      case Runtime::fsdp1:
      case Runtime::fsdp2:
        fsdp(result);
        break;
      case Runtime::ddp:
        ddp(result);
        break;
      case Runtime::deepspeed:
        deepspeed(result);
        break;
    }
    // Sizes are of trained float parameters; of frozen and packed ones nothing is claimed.
    if (inputs_.training.fine_tuning) return {};
    return result;
  }

 private:
  ShardingPlan plan() const {
    RuntimeRequest request = runtime_request(choice_, inputs_.model);
    request.optimizer = inputs_.training.optimizer;
    return plan_of(inputs_.model, request);
  }

  Duration time(OperationKind kind, std::int64_t elements, Dtype dtype, const Group& group) const {
    return inputs_.costs.collective_time(kind, bytes_of(elements, dtype), group);
  }

  Duration read_once(const ModelStates& states) const {
    return (states.parameters + states.gradients + states.optimizer_states) /
           inputs_.profile.memory_bandwidth;
  }

  /// The ZeRO paper's forms, without padding. A sum over the world is a scatter at least.
  void native(ShardingBounds& result) const {
    const Precision precision = native_strategy(choice_, inputs_.model).precision;
    const Dtype gradients = dtypes_of(precision).gradients;
    result.states = zero_paper_states(trainable_, choice_.sharding, choice_.mesh.shard,
                                      inputs_.training.optimizer, precision, gradients);
    if (choice_.offload != Offload::none) result.states.optimizer_states = {};
    if (choice_.offload == Offload::all) result.states.parameters = {};
    const bool hybrid = choice_.mesh.shard > 1 && choice_.mesh.replicate > 1;
    Communication& once = result.once.communication;
    once.reductions =
        time(OperationKind::reduce_scatter, trainable_, gradients, hybrid ? shards_ : world_);
    if (hybrid)
      once.between_replicas =
          time(OperationKind::all_reduce, trainable_ / choice_.mesh.shard, gradients, replicas_);
    if (shards_parameters(choice_.sharding))
      once.gathers = time(OperationKind::all_gather, elements_, dtype_, shards_);
  }

  /// Read once and written once: what a copy of so many elements takes at least.
  Duration copied(std::int64_t elements, Dtype dtype) const {
    return inputs_.costs.copy_time(bytes_of(2 * elements, dtype));
  }

  /// A gather and a reduction of each unit. Where units are gathered again in the backward, the two
  /// largest may be left out: the root and the last one.
  void fsdp(ShardingBounds& result) const {
    const ShardingPlan sharding = plan();
    const bool again = shards_parameters(choice_.sharding);
    std::int64_t elements = 0, largest = 0;
    PerStep gathers, reductions;
    Duration largest_gather;
    for (const PlannedUnit& unit : sharding.units) {
      const Duration gather =
          time(OperationKind::all_gather, unit.padded_elements, gathered_dtype_, shards_);
      const Duration reduction =
          time(OperationKind::reduce_scatter, unit.padded_elements, dtype_, shards_);
      gathers.communication.gathers += gather;
      reductions.communication.reductions += reduction;
      reductions.communication.between_replicas +=
          time(OperationKind::all_reduce, unit.shard_elements, dtype_, replicas_);
      elements += unit.elements;
      largest = std::max(largest, unit.elements);
      largest_gather = std::max(largest_gather, gather);
      if (unit.name.empty()) expose_root(unit, gather, reduction, result, gathers, reductions);
    }
    if (again) {
      const Duration two = largest_gather * 2;
      gathers.communication.gathers += std::max(Duration{}, gathers.communication.gathers - two);
    }
    // FSDP2 copies parameters out of what it gathers, and gradients into what it reduces.
    if (choice_.runtime == Runtime::fsdp2) {
      gathers.copies =
          copied(elements + (again ? std::max<std::int64_t>(0, elements - 2 * largest) : 0),
                 gathered_dtype_);
      reductions.copies = copied(elements, dtype_);
    }
    (again ? result.each : result.once) = gathers;
    PerStep& reduced = choice_.reduces_every_micro_batch ? result.each : result.once;
    add(reduced, reductions);
    if (!choice_.reduces_every_micro_batch) keep_gradients(dtype_, result);
    if (!again && choice_.sharding != S::no_shard)
      result.gathered = bytes_of(elements, gathered_dtype_);
    if (choice_.offload == Offload::all) return;
    result.states = sharding.per_rank;
    result.update = read_once(result.states);
  }

  /// FSDP2 over the ranks of shard x context, each with what an axis tensor leaves it of every
  /// parameter: a unit for each block and one for the rest. Each micro-batch gathers and reduces.
  void torchtitan(ShardingBounds& result) const {
    const TorchtitanAxes& axes = *choice_.torchtitan;
    const int ranks = choice_.mesh.shard * axes.context;
    const Group shards = group_of(axes.tensor, ranks);
    const Group replicas = group_of(axes.ranks() * choice_.mesh.shard, choice_.mesh.replicate);
    constexpr Dtype reduced = torchtitan_reduce_dtype;
    const bool again = shards_parameters(choice_.sharding);
    PerStep& each = result.each;
    std::int64_t largest = 0;
    Duration all_gathers, largest_gather, all_reductions;
    std::int64_t costed = -1;  // blocks are alike
    Duration gather, reduction, between;
    for (const std::int64_t whole : torchtitan_units(inputs_.model)) {
      const std::int64_t elements = whole / axes.tensor;
      if (elements != costed) {
        gather = time(OperationKind::all_gather, elements, gathered_dtype_, shards);
        reduction = time(OperationKind::reduce_scatter, elements, reduced, shards);
        if (choice_.mesh.replicate > 1)
          between = time(OperationKind::all_reduce, elements / ranks, reduced, replicas);
        costed = elements;
      }
      all_gathers += gather;
      all_reductions += reduction;
      each.communication.between_replicas += between;
      largest = std::max(largest, elements);
      largest_gather = std::max(largest_gather, gather);
      each.exposed = gather + reduction;  // at last the root's
    }
    each.communication.gathers =
        all_gathers + (again ? std::max(Duration{}, all_gathers - largest_gather * 2) : Duration{});
    each.communication.reductions = all_reductions;
    const std::int64_t elements = elements_ / axes.tensor;
    each.copies = copied(elements + (again ? std::max<std::int64_t>(0, elements - 2 * largest) : 0),
                         gathered_dtype_) +
                  copied(elements, dtype_);
    if (!again) result.gathered = bytes_of(elements, gathered_dtype_);
    if (choice_.precision == TrainingPrecision::bf16) return;
    result.states = zero_paper_states(trainable_ / axes.tensor, S::full_shard, ranks,
                                      inputs_.training.optimizer, Precision::fp32, Dtype::float32);
    result.update = read_once(result.states);
  }

  /// What a unit of so many elements takes to gather, to reduce, and to sum over replicas. One rank
  /// exchanges nothing.
  struct UnitTimes {
    Duration gather, reduction, between;
  };
  UnitTimes unit_times(std::int64_t elements, const Group& shards, const Group& replicas) const {
    UnitTimes times;
    const auto ranks = static_cast<std::int64_t>(shards.ranks.size());
    if (ranks > 1) {
      times.gather = time(OperationKind::all_gather, elements, dtype_, shards);
      times.reduction =
          time(OperationKind::reduce_scatter, elements, torchtitan_reduce_dtype, shards);
    }
    if (replicas.ranks.size() > 1)
      times.between =
          time(OperationKind::all_reduce, elements / ranks, torchtitan_reduce_dtype, replicas);
    return times;
  }

  /// FSDP2's units of torchtitan's mixtures (core/pytorch/parallel/mixture_training.cpp): experts
  /// over efsdp, all else over the ranks of shard. The output layer is gathered once at least, all
  /// others once more for the backward, and the embedding is the first and the last.
  void mixture(ShardingBounds& result) const {
    const int spread = expert_ranks(choice_), shard = choice_.mesh.shard;
    const Group expert_shards = group_of(spread, shard / spread);
    const bool again = shards_parameters(choice_.sharding);
    const MixtureUnits units = mixture_units(inputs_.model);
    PerStep& each = result.each;
    Communication& all = each.communication;
    std::int64_t gathered = 0, reduced = 0;
    const auto add = [&](std::int64_t elements, bool twice) {
      const UnitTimes times = unit_times(elements, shards_, replicas_);
      all.gathers += times.gather * (twice ? 2 : 1);
      all.reductions += times.reduction;
      all.between_replicas += times.between;
      gathered += elements * (twice ? 2 : 1);
      reduced += elements;
      return times;
    };
    const auto add_experts = [&](std::int64_t elements) {
      const UnitTimes times = unit_times(elements, expert_shards, replicas_);
      all.expert_gathers += times.gather * (again ? 2 : 1);
      all.expert_reductions += times.reduction;
      all.between_expert_replicas += times.between;
      if (expert_shards.ranks.size() == 1) return;
      gathered += elements * (again ? 2 : 1);
      reduced += elements;
    };
    for (std::size_t block = 0; block < units.dense.size(); ++block) {
      const bool apart = spread > 1 && units.experts[block] > 0;
      add(units.dense[block] + (apart ? 0 : units.experts[block]), again);
      if (apart) add_experts(units.experts[block] / spread);
    }
    add(units.head, false);
    const UnitTimes embedding = add(units.embedding, again);
    each.exposed = embedding.gather + embedding.reduction;
    each.copies = copied(gathered, dtype_) + copied(reduced, dtype_);
    if (!again) result.gathered = bytes_of(reduced, dtype_);
    result.states = zero_paper_states(trainable_, S::full_shard, shard, inputs_.training.optimizer,
                                      Precision::fp32, Dtype::float32);
    result.update = read_once(result.states);
  }

  /// The root is gathered before anything is computed, after the last update, and reduced when all
  /// is computed. FSDP1 keeps it whole meanwhile.
  void expose_root(const PlannedUnit& root, Duration gather, Duration reduction,
                   ShardingBounds& result, PerStep& gathers, PerStep& reductions) const {
    gathers.exposed = gather;
    reductions.exposed = reduction;
    if (choice_.runtime == Runtime::fsdp1 && shards_parameters(choice_.sharding))
      result.gathered = bytes_of(root.elements, dtype_);
  }

  static void add(PerStep& to, const PerStep& other) {
    to.communication.gathers += other.communication.gathers;
    to.communication.reductions += other.communication.reductions;
    to.communication.between_replicas += other.communication.between_replicas;
    to.exposed += other.exposed;
    to.copies += other.copies;
  }

  /// Each further micro-batch adds its gradients to those there are: two read, one written.
  void keep_gradients(Dtype dtype, ShardingBounds& result) const {
    result.kept_gradients = bytes_of(trainable_, dtype);
    result.further.copies = result.kept_gradients * 3 / inputs_.profile.memory_bandwidth;
  }

  void ddp(ShardingBounds& result) const {
    const ShardingPlan sharding = plan();
    const Dtype gradients = parameter_dtype(choice_.precision);
    result.states = sharding.per_rank;
    result.once.communication.reductions =
        time(OperationKind::all_reduce, trainable_, gradients, world_);
    keep_gradients(gradients, result);
    result.update = read_once(result.states);
  }

  void deepspeed(ShardingBounds& result) const {
    const eager::TrainingSetup setup = training_setup(choice_, inputs_.model, inputs_.training);
    const DeepSpeedSettings& settings = std::get<eager::DeepSpeedSetup>(setup.runtime).settings;
    const ShardingPlan sharding = plan();
    result.states = sharding.per_rank;
    result.states.gradients = {};
    if (choice_.offload != Offload::none) result.states.optimizer_states = {};
    if (choice_.offload == Offload::all) result.states.parameters = {};
    result.update = result.states.optimizer_states / inputs_.profile.memory_bandwidth;
    if (settings.stage == 3)
      zero3(settings, sharding, result);
    else
      zero_flat(settings, sharding, result);
  }

  Dtype zero_dtype() const {
    return choice_.precision == TrainingPrecision::bf16 ? Dtype::bfloat16 : dtype_;
  }

  /// Gradients that fit a bucket are copied into it, and all are divided. Without overlap_comm all
  /// of it, and the reduction, is on the stream that computes.
  void reduce_buckets(const DeepSpeedSettings& settings, Duration reduction, bool copies_beside,
                      PerStep& step) const {
    step.communication.reductions = reduction;
    std::int64_t copied_elements = 0;
    if (settings.contiguous_gradients)
      for (const Parameter& parameter : inputs_.model.parameters)
        if (parameter.trainable && parameter.elements() <= settings.reduce_bucket_elements)
          copied_elements += parameter.elements();
    if (!settings.overlap_comm || !copies_beside)
      step.moves = inputs_.costs.copy_time(bytes_of(2 * copied_elements, zero_dtype()));
    if (settings.overlap_comm) return;
    step.serial = reduction;
    step.copies = bytes_of(2 * trainable_, zero_dtype()) / inputs_.profile.memory_bandwidth;
  }

  /// Stages 1 and 2 gather what they have updated. Stage 1 reduces in the last micro-batch.
  void zero_flat(const DeepSpeedSettings& settings, const ShardingPlan& sharding,
                 ShardingBounds& result) const {
    const Dtype dtype = zero_dtype();
    const bool all = settings.multi_rank_all_reduce || !settings.reduce_scatter;
    const Duration reduction = time(all ? OperationKind::all_reduce : OperationKind::reduce_scatter,
                                    trainable_, dtype, world_);
    const bool has_buckets = settings.stage == 2 || settings.accumulation_dtype != Dtype::float32;
    PerStep& reduced = settings.stage == 2 ? result.each : result.once;
    if (has_buckets) {
      reduce_buckets(settings, reduction, false, reduced);
      (settings.stage == 2 ? result.host : result.host_once) = parts_of_owners(settings, sharding);
    } else {
      reduced.communication.reductions = reduction;
    }
    const Duration gather = time(OperationKind::all_gather, trainable_, dtype, world_);
    result.once.communication.gathers = gather;
    result.once.serial += gather;
    if (settings.stage == 2 || !has_buckets || choice_.offload != Offload::none) return;
    // Whole gradients and the buckets stay until the last micro-batch.
    keep_gradients(dtype, result);
    if (settings.contiguous_gradients)
      result.kept_gradients +=
          bytes_of(settings.reduce_bucket_elements * (settings.overlap_comm ? 2 : 1), dtype);
    if (!settings.overlap_comm) result.states.gradients = sharding.per_rank.gradients;
  }

  /// Of an operator that issues nothing: a view, an empty tensor.
  Duration dispatch() const {
    Schedule recorded;
    recorded.memory = MemorySource::caching_allocator;
    const DeviceClockOptions clock = clock_options(recorded, inputs_.profile);
    return {std::min(clock.dispatch_ns(false), clock.dispatch_ns(true))};
  }

  /// Stages 1 and 2 take what is reduced apart for the ranks that own it: each part is narrowed and
  /// viewed before the reduction, and again after it.
  Duration parts_of_owners(const DeepSpeedSettings& settings, const ShardingPlan& sharding) const {
    if (!settings.reduce_scatter || !settings.multi_rank_all_reduce ||
        !settings.contiguous_gradients)
      return {};
    constexpr std::int64_t views = 4;
    std::int64_t owners = 0;
    for (const PlannedBucket& group : sharding.buckets)
      if (group.shard_elements > 0)
        owners += (group.elements + group.shard_elements - 1) / group.shard_elements;
    return dispatch() * (views * owners);
  }

  /// Of a bucket with several gradients stage 3 narrows each for each rank, and fills up the parts
  /// of ranks for which there is less of it. A gradient to which any other can be added is alone in
  /// its bucket only if it is the last one.
  Duration narrowing(const DeepSpeedSettings& settings) const {
    if (!settings.reduce_scatter) return {};
    const std::int64_t ranks = choice_.mesh.world();
    std::int64_t largest = 0, parts = 0, most_parts = 0;
    for (const Parameter& parameter : inputs_.model.parameters)
      if (parameter.trainable) largest = std::max(largest, parameter.elements());
    for (const Parameter& parameter : inputs_.model.parameters) {
      const std::int64_t elements = parameter.elements();
      if (!parameter.trainable || elements == 0 ||
          elements + largest > settings.reduce_bucket_elements)
        continue;
      const std::int64_t part = (elements + ranks - 1) / ranks, whole = elements / part;
      parts += ranks + (ranks - whole);
      most_parts = std::max(most_parts, ranks + (ranks - whole));
    }
    return dispatch() * (parts - most_parts);
  }

  /// What stage 3 gathers together it narrows for each rank. With a prefetch bucket that no
  /// parameter fills, and room for all of them, that is all of a forward but what the first module
  /// needs, and a last one: at most two are gathered alone.
  Duration prefetched_parts(const DeepSpeedSettings& settings, const ShardingPlan& sharding) const {
    const std::int64_t bucket = settings.prefetch_bucket_elements;
    if (bucket <= 0 || elements_ + bucket > settings.max_live_elements) return {};
    std::int64_t parts = 0, most_parts = 0;
    for (const PlannedPartition& partition : sharding.partitions) {
      if (partition.persistent || partition.elements == 0) continue;
      if (partition.elements >= bucket) return {};
      const std::int64_t of_it =
          (partition.elements + partition.shard_elements - 1) / partition.shard_elements;
      parts += of_it;
      most_parts = std::max(most_parts, of_it);
    }
    return dispatch() * std::max<std::int64_t>(0, parts - 2 * most_parts);
  }

  /// Stage 3 gathers what is not persistent for each forward. For each backward it gathers the same
  /// again, without what it has kept. The second copy serves all but the first forward.
  void zero3(const DeepSpeedSettings& settings, const ShardingPlan& sharding,
             ShardingBounds& result) const {
    const Dtype dtype = zero_dtype();
    reduce_buckets(settings, time(OperationKind::reduce_scatter, trainable_, dtype, world_), true,
                   result.each);
    const Duration prefetched = prefetched_parts(settings, sharding);
    result.host = narrowing(settings);
    // The second copy has fewer parts.
    (is_hybrid(choice_.sharding) ? result.host_once : result.host) += prefetched;
    std::int64_t gathered = 0, largest = 0;
    for (const PlannedPartition& partition : sharding.partitions) {
      if (partition.persistent) continue;
      gathered += partition.elements;
      largest = std::max(largest, partition.elements);
    }
    if (settings.contiguous_gradients)
      result.gathered += bytes_of(settings.reduce_bucket_elements, dtype);
    if (choice_.offload == Offload::none) result.gathered += sharding.per_rank.gradients;
    if (gathered == 0) return;
    const std::int64_t again = std::max<std::int64_t>(
        0, gathered - settings.max_reuse_elements - settings.max_live_elements - 2 * largest);
    const auto gather = [&](std::int64_t elements, const Group& group) {
      return elements == 0 ? Duration{} : time(OperationKind::all_gather, elements, dtype, group);
    };
    if (!is_hybrid(choice_.sharding)) {
      result.each.communication.gathers = gather(gathered, world_) + gather(again, world_);
      return;
    }
    result.once.communication.gathers = gather(gathered, world_);
    result.each.communication.second_copy = gather(again, shards_);
    result.further.communication.second_copy = gather(gathered, shards_);
    // At that moment each parameter is whole or in the second copy, which takes less.
    result.gathered += bytes_of(gathered / choice_.mesh.shard, dtype);
  }

  const Choice& choice_;
  const TrialInputs& inputs_;
  Group shards_, replicas_, world_;
  Dtype dtype_;
  Dtype gathered_dtype_;  ///< of FSDP2; in float8 as if all were 8 bits: no less is gathered
  std::int64_t elements_ = 0, trainable_ = 0;
};

/// Gathers and reductions of one sharding have one communicator.
Duration communication_time(const Communication& c, const SharingRules& rules) {
  const Duration experts = c.expert_gathers + c.expert_reductions;
  // Replicas of experts and of all else are the same ranks, in groups that may be apart.
  const Duration replicas = std::max(c.between_replicas, c.between_expert_replicas);
  if (!rules.collectives_serial)
    return std::max(
        {c.gathers, c.reductions, replicas, c.second_copy, c.expert_gathers, c.expert_reductions});
  if (rules.communicators_apart)
    return std::max({c.gathers + c.reductions, replicas, c.second_copy, experts});
  return c.gathers + c.reductions + c.between_replicas + c.second_copy + experts +
         c.between_expert_replicas;
}

PerStep of_step(const ShardingBounds& sharding, int micro_batches) {
  const auto sum = [&](const auto& part) {
    return part(sharding.each) * micro_batches + part(sharding.further) * (micro_batches - 1) +
           part(sharding.once);
  };
  const auto communication = [&](Duration Communication::*part) {
    return sum([&](const PerStep& p) { return p.communication.*part; });
  };
  return {.communication = {.gathers = communication(&Communication::gathers),
                            .reductions = communication(&Communication::reductions),
                            .between_replicas = communication(&Communication::between_replicas),
                            .second_copy = communication(&Communication::second_copy),
                            .expert_gathers = communication(&Communication::expert_gathers),
                            .expert_reductions = communication(&Communication::expert_reductions),
                            .between_expert_replicas =
                                communication(&Communication::between_expert_replicas)},
          // Once a step is what every runtime has to expose.
          .exposed = sharding.each.exposed + sharding.once.exposed,
          .serial = sum([](const PerStep& p) { return p.serial; }),
          .copies = sum([](const PerStep& p) { return p.copies; }),
          .moves = sum([](const PerStep& p) { return p.moves; })};
}

/// Compute is slowed by collectives that run beside it, and not by those that it waits for. While
/// it waits for those of another communicator (`awaited` of `compute`), they slow nothing.
Duration device_time(const PerStep& step, Duration compute, Duration awaited,
                     const SharingRules& rules) {
  const Duration communication = communication_time(step.communication, rules);
  const bool at_once = !rules.collectives_serial || rules.communicators_apart;
  const auto rest = [&](Duration taken) { return std::max(Duration{}, communication - taken); };
  const Duration exposed = std::min(step.exposed, rest(step.serial));
  const Duration beside =
      rest(step.serial + exposed + step.moves + (at_once ? awaited : Duration{}));
  const double slowed = 1 - 1 / rules.compute_slowdown;
  return std::max(communication, compute + step.moves + step.serial + exposed +
                                     Duration::from_seconds(beside.seconds() * slowed));
}

Bounds combined(const Choice& choice, const TrialInputs& inputs, const PlainStep& plain,
                const ShardingBounds& sharding) {
  const PerStep step = of_step(sharding, choice.micro_batches);
  const Duration compute = plain.compute * choice.micro_batches + step.copies + sharding.update;
  const ModelStates& states = sharding.states;
  const Bytes between = states.parameters + states.optimizer_states;
  const Bytes kept = choice.micro_batches > 1 ? sharding.kept_gradients : Bytes{};
  const bool native = choice.runtime == Runtime::native;
  const Bytes outside = native ? Bytes{} : inputs.profile.context_memory.value_or(Bytes{});
  SharingRules rules = sharing_rules(inputs.profile);
  if (native) rules.communicators_apart = false;
  return {
      .time = std::max(device_time(step, compute, plain.awaited * choice.micro_batches, rules),
                       (plain.host + sharding.host) * choice.micro_batches + sharding.host_once),
      .memory = outside + between +
                std::max(plain.activations + sharding.gathered + kept, states.gradients)};
}

/// From two numbers of blocks: kernels add up, and the most that activations take is, as a function
/// of the blocks, convex, so that the line through two points is never above it.
PlainStep extended_plain_step(const Choice& choice, const TrialInputs& inputs) {
  const bool can_be_cut = inputs.findings != nullptr && choice.runtime != Runtime::native;
  const int blocks = can_be_cut ? inputs.findings->shallow().blocks() : 0;
  const auto depths =
      blocks > 0 ? depths_of(blocks, std::max(1, choice.checkpointing.every)) : std::nullopt;
  if (!depths) return plain_step(choice, inputs);
  const PlainStep few = plain_step(choice, with_blocks(inputs, depths->few));
  const PlainStep more = plain_step(choice, with_blocks(inputs, depths->more));
  return {.compute = {depths->extended(few.compute.ns, more.compute.ns, blocks)},
          .awaited = {depths->extended(few.awaited.ns, more.awaited.ns, blocks)},
          .host = {depths->extended(few.host.ns, more.host.ns, blocks)},
          .activations = {depths->extended(few.activations.count, more.activations.count, blocks)}};
}

PlainStep known_plain_step(const Choice& choice, const TrialInputs& inputs) {
  if (inputs.findings == nullptr) return plain_step(choice, inputs);
  const PlainKey key = plain_key(choice);
  if (const auto known = inputs.findings->plain(key)) return *known;
  const PlainStep step = extended_plain_step(choice, inputs);
  inputs.findings->keep(key, step);
  return step;
}

/// Values of the keys that occur, computed side by side.
template <class Key, class Value>
class Table {
 public:
  void need(const Key& key, std::size_t choice) { examples_.try_emplace(key, choice); }

  template <class Compute>
  void fill(unsigned threads, const Compute& compute) {
    std::vector<std::pair<Key, std::size_t>> keys(examples_.begin(), examples_.end());
    std::vector<Value> values(keys.size());
    for_each_index(keys.size(), threads,
                   [&](std::size_t i) { values[i] = compute(keys[i].second); });
    for (std::size_t i = 0; i < keys.size(); ++i) values_.emplace(keys[i].first, values[i]);
  }
  const Value& at(const Key& key) const { return values_.at(key); }

 private:
  std::map<Key, std::size_t> examples_;
  std::map<Key, Value> values_;
};

/// Of what is not pipelined, from a plain step of each key.
template <class PlainStepOf>
std::vector<Bounds> bounds_with(const PlainStepOf& plain_step_of, const PipelineBounds& pipelines,
                                std::span<const Choice> choices, const TrialInputs& inputs,
                                unsigned threads, const std::stop_token& stop) {
  Table<PlainKey, PlainStep> plain;
  Table<ShardingKey, ShardingBounds> shardings;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (is_pipelined(choices[i])) continue;
    plain.need(plain_key(choices[i]), i);
    shardings.need(sharding_key(choices[i]), i);
  }
  // What cannot be recorded or planned has no bound: trying it out says why.
  const auto or_nothing = [&](const auto& compute) {
    try {
      if (!stop.stop_requested()) return compute();
    } catch (const Error&) {
    }
    return std::invoke_result_t<decltype(compute)>{};
  };
  plain.fill(threads, [&](std::size_t i) {
    return or_nothing([&] { return plain_step_of(choices[i], inputs); });
  });
  shardings.fill(threads, [&](std::size_t i) {
    return or_nothing([&] { return ShardingBounder(choices[i], inputs).bounds(); });
  });
  std::vector<Bounds> result;
  result.reserve(choices.size());
  for (const Choice& choice : choices)
    result.push_back(stop.stop_requested()  ? Bounds{}
                     : is_pipelined(choice) ? pipelines.of(choice)
                                            : combined(choice, inputs, plain.at(plain_key(choice)),
                                                       shardings.at(sharding_key(choice))));
  return result;
}

std::map<PlainKey, ModelCosts> cost_floors_of(std::span<const Choice> choices,
                                              const TrialInputs& inputs,
                                              const std::stop_token& stop) {
  std::map<PlainKey, ModelCosts> costs;
  for (const Choice& choice : choices) {
    if (stop.stop_requested()) break;
    const auto [of, is_new] = costs.try_emplace(plain_key(choice));
    if (is_new) try {
        of->second = torchtitan_cost_floor(choice, inputs);
      } catch (const Error&) {
        // Trying it out says why.
      }
  }
  return costs;
}

}  // namespace

std::vector<Bounds> bounds_of(std::span<const Choice> choices, const TrialInputs& inputs,
                              unsigned threads, const std::stop_token& stop) {
  PipelineBounds pipelines(inputs);
  return bounds_of(choices, inputs, threads, stop, pipelines);
}

std::vector<Bounds> bounds_of(std::span<const Choice> choices, const TrialInputs& inputs,
                              unsigned threads, const std::stop_token& stop,
                              PipelineBounds& known) {
  known.add(choices, threads, stop);
  return bounds_with(known_plain_step, known, choices, inputs, threads, stop);
}

namespace {

std::vector<Bounds> floors_of_some(std::span<const Choice> choices, const TrialInputs& inputs,
                                   const std::stop_token& stop) {
  std::vector<Choice> known, pipelined;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (!choices[i].torchtitan) continue;
    places.push_back(i);
    known.push_back(choices[i]);
    if (is_pipelined(choices[i])) pipelined.push_back(choices[i]);
  }
  PipelineBounds pipelines(inputs);
  pipelines.add(pipelined, cost_floors_of(pipelined, inputs, stop), stop);
  const std::vector<Bounds> found =
      bounds_with(torchtitan_floor, pipelines, known, inputs, 1, stop);
  std::vector<Bounds> result(choices.size());
  for (std::size_t i = 0; i < places.size(); ++i) result[places[i]] = found[i];
  return result;
}

}  // namespace

std::vector<Bounds> floors_of(std::span<const Choice> choices, const TrialInputs& inputs,
                              unsigned threads, const std::stop_token& stop) {
  // What neighbours share is found once for each part.
  constexpr std::size_t part = 1024;
  std::vector<Bounds> result(choices.size());
  for_each_index((choices.size() + part - 1) / part, threads, [&](std::size_t i) {
    const std::size_t first = i * part;
    std::ranges::copy(floors_of_some(choices.subspan(first, std::min(part, choices.size() - first)),
                                     inputs, stop),
                      result.begin() + static_cast<std::ptrdiff_t>(first));
  });
  return result;
}

}  // namespace shardscope::planner
