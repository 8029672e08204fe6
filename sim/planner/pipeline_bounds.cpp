#include "sim/planner/pipeline_bounds.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/native/pipeline_stages.h"
#include "core/native/zero_paper.h"
#include "core/schedule/model_states.h"
#include "sim/engine/clock_options.h"
#include "sim/planner/estimate.h"
#include "sim/planner/parallel.h"
#include "sim/planner/torchtitan_pipeline.h"

namespace shardscope::planner {
namespace {

enum class PartKind : std::uint8_t { embedding, block, head };

/// The part of the model that an operation belongs to, in a schedule of the whole model.
class Parts {
 public:
  Parts(const Schedule& schedule, const Model& model, ModelCosts& costs)
      : schedule_(schedule), costs_(costs) {
    costs.blocks.resize(model.decoder->blocks.size());
    std::map<std::string, std::size_t> block_of_name;
    for (const DecoderBlock& block : model.decoder->blocks)
      block_of_name.emplace(block.module, block_of_name.size());
    for (const Unit& unit : schedule.units) {
      const auto block = block_of_name.find(unit.name);
      of_unit_.push_back(block != block_of_name.end() ? &costs.blocks[block->second] : &costs.head);
    }
  }

  PartCost& of(const Operation& op) const {
    const KernelKind kind = schedule_.kernels[op.detail].kind();
    const bool embeds =
        kind == KernelKind::embedding_forward || kind == KernelKind::embedding_backward;
    return embeds || !op.unit ? costs_.embedding : *of_unit_[op.unit.value];
  }
  PartCost& of(const Buffer& buffer) const { return *of_unit_[buffer.unit.value]; }
  PartKind kind_of(const PartCost& part) const {
    if (&part == &costs_.embedding) return PartKind::embedding;
    return &part == &costs_.head ? PartKind::head : PartKind::block;
  }

 private:
  const Schedule& schedule_;
  ModelCosts& costs_;
  std::vector<PartCost*> of_unit_;
};

/// Head and loss run with the backward: of the head's unit only the last norm is in the forward,
/// which a checkpointed stage runs again.
bool runs_in_forward(const Operation& op, KernelKind kind, PartKind part) {
  return op.phase == Phase::forward && (part != PartKind::head || kind == KernelKind::norm_forward);
}

void add_time(const Operation& op, KernelKind kind, Duration time, PartKind of, PartCost& part) {
  if (runs_in_forward(op, kind, of)) {
    part.time.forward += time;
    part.last_forward = time;
  } else if (of == PartKind::block && kind == KernelKind::linear_backward_weight) {
    part.time.weight_backward += time;
  } else {
    part.time.input_backward += time;
  }
  ++part.operations;
}

/// Gradients are cleared in the first one alone, and a tied embedding adds to those of the head
/// only where that is on the same rank.
bool is_in_every_micro_batch(const Kernel& kernel) {
  const auto* embedding = kernel.get_if<EmbeddingBackwardKernel>();
  return kernel.kind() != KernelKind::fill_zero && (embedding == nullptr || !embedding->accumulate);
}

bool is_kept(const Buffer& buffer, const Schedule& schedule) {
  if (buffer.category != MemoryCategory::activations || !buffer.unit || !buffer.allocated_by ||
      !buffer.freed_by)
    return false;
  return schedule.at(buffer.allocated_by).phase == Phase::forward &&
         schedule.at(buffer.freed_by).phase == Phase::backward;
}

void add(const Parameter& parameter, PartElements& part) {
  part.all += parameter.elements();
  if (parameter.trainable) part.trained += parameter.elements();
}

ModelElements elements_of(const Model& model) {
  const Decoder& decoder = *model.decoder;
  ModelElements elements;
  std::map<std::string, std::size_t> block_of_prefix;
  for (const DecoderBlock& block : decoder.blocks)
    block_of_prefix.emplace(block.module + ".", block_of_prefix.size());
  elements.blocks.resize(decoder.blocks.size());
  for (const Parameter& parameter : model.parameters) {
    // Of all names up to the parameter's the last one, if any, is its beginning.
    const auto next = block_of_prefix.upper_bound(parameter.name);
    if (next == block_of_prefix.begin()) continue;
    const auto& [prefix, block] = *std::prev(next);
    if (parameter.name.starts_with(prefix)) add(parameter, elements.blocks[block]);
  }
  add(model.parameters[decoder.token_embedding.value], elements.embedding);
  add(model.parameters[decoder.head.weight.value], elements.head);
  elements.tied = decoder.head.weight == decoder.token_embedding;
  return elements;
}

ModelElements known_elements(const TrialInputs& inputs) {
  const auto make = [&] { return elements_of(inputs.model); };
  return inputs.findings == nullptr ? make() : inputs.findings->elements().of({}, make);
}

/// By rank of the pipeline. A tied embedding is on the first and the last stage's, where these are
/// two.
std::vector<PartElements> elements_of_ranks(const ModelElements& model,
                                            const std::vector<int>& blocks,
                                            const PipelineSetup& setup) {
  const std::vector<int> rank_of_stage = rank_of_stages(setup);
  std::vector<PartElements> ranks(static_cast<std::size_t>(setup.ranks));
  const auto add_to = [&](int rank, const PartElements& part) {
    ranks[static_cast<std::size_t>(rank)].all += part.all;
    ranks[static_cast<std::size_t>(rank)].trained += part.trained;
  };
  std::size_t next = 0;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage)
    for (int block = 0; block < blocks[stage]; ++block)
      add_to(rank_of_stage[stage], model.blocks[next++]);
  add_to(rank_of_stage.front(), model.embedding);
  if (!model.tied || rank_of_stage.front() != rank_of_stage.back())
    add_to(rank_of_stage.back(), model.head);
  return ranks;
}

/// Gathers and reductions of one rank, as far as they come once a step whatever the schedule.
class StageCommunication {
 public:
  StageCommunication(const Choice& choice, CollectiveTimes& times, Precision precision)
      : choice_(choice),
        times_(times),
        compute_(dtypes_of(precision).compute),
        reduced_(choice.runtime == Runtime::native ? dtypes_of(precision).gradients
                                                   : torchtitan_reduce_dtype) {}

  Duration of(int rank, const PartElements& elements) const {
    return std::max(reduction(rank, elements),
                    zero_stage(choice_.sharding) == 3 ? gather(rank, elements) : Duration{});
  }

  Duration reduction(int rank, const PartElements& elements) const {
    const Mesh& mesh = choice_.mesh;
    if (ranks() == 1) return {};
    const bool hybrid = mesh.shard > 1 && mesh.replicate > 1;
    return time(OperationKind::reduce_scatter, bytes_of(elements.trained, reduced_), rank,
                hybrid ? mesh.shard : ranks());
  }

  Duration gather(int rank, const PartElements& elements) const {
    if (ranks() == 1) return {};
    return time(OperationKind::all_gather, bytes_of(elements.all, compute_), rank,
                choice_.mesh.shard);
  }

 private:
  int ranks() const { return choice_.mesh.replicate * choice_.mesh.shard; }
  Duration time(OperationKind kind, Bytes payload, int rank, int size) const {
    const int tensor = tensor_ranks(choice_);
    return times_.of({.kind = kind,
                      .payload = payload,
                      .first = rank * ranks() * tensor,
                      .apart = tensor,
                      .ranks = size});
  }

  const Choice& choice_;
  CollectiveTimes& times_;
  Dtype compute_, reduced_;
};

/// torchtitan's is no strategy of the native runtime.
Precision precision_of(const Choice& choice, const TrialInputs& inputs) {
  if (choice.torchtitan) return parse_precision(name_of(choice.precision), "precision");
  return native_strategy(choice, inputs.model).precision;
}

ModelStates states_of(const Choice& choice, std::int64_t trained, const TrialInputs& inputs) {
  if (choice.runtime != Runtime::native) return torchtitan_states(choice, trained, inputs);
  const Precision precision = precision_of(choice, inputs);
  return zero_paper_states(trained, choice.sharding, choice.mesh.shard, inputs.training.optimizer,
                           precision, dtypes_of(precision).gradients);
}

/// Of torchtitan, whose stages reduce once a step: when the second backward begins, a rank has all
/// of its gradients whole, in float32, and of micro-batches at most one less than it ever keeps.
/// `shard_grad_op` has the parameters beside them. The last stage keeps its `outputs` until the
/// step ends, so that the last backward begins with all of them.
struct KeptOfStage {
  Bytes of_micro_batch, most, outputs;
};
Bytes held_unsharded(const Choice& choice, std::int64_t trained, const KeptOfStage& of) {
  const Bytes kept = of.most;
  // With several stages a rank some may have reduced their gradients before others begin.
  if (!has_single_stage(choice.pipeline.schedule)) return kept;
  if (choice.precision == TrainingPrecision::bf16 || choice.micro_batches < 2) return kept;
  const bool reshards = zero_stage(choice.sharding) == 3;
  const Dtype gathered = compute_dtype(choice.precision).value_or(Dtype::float32);
  const Bytes parameters =
      reshards || choice.mesh.shard == 1 ? Bytes{} : bytes_of(trained, gathered);
  return std::max(kept, bytes_of(trained, Dtype::float32) + parameters +
                            std::max(kept - of.of_micro_batch, of.outputs));
}

/// Logits of all micro-batches.
Bytes outputs_of(const Choice& choice, const TrialInputs& inputs) {
  const std::int64_t tokens = choice.batch * choice.micro_batches * inputs.training.length;
  return bytes_of(tokens * inputs.model.decoder->vocabulary / tensor_ranks(choice),
                  compute_dtype(choice.precision).value_or(parameter_dtype(choice.precision)));
}

/// What torchtitan's ranks hold whole of a stage beside activations.
struct WholeOfStage {
  Bytes parameters;  ///< gathered by its first forward, until its last backward
  Bytes gradients;   ///< of its first backward of weights, reduced after its last one
  Bytes output;      ///< of a micro-batch, kept until the step ends: the last stage's
};

std::vector<WholeOfStage> whole_of_stages(const Choice& choice, const std::vector<int>& blocks,
                                          const ModelElements& model, const TrialInputs& inputs) {
  std::vector<WholeOfStage> stages(blocks.size());
  const Dtype gathered = compute_dtype(choice.precision).value_or(Dtype::float32);
  const bool keeps_parameters = zero_stage(choice.sharding) == 2 && choice.mesh.shard > 1;
  std::size_t next = 0;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    std::int64_t trained = 0;
    for (int block = 0; block < blocks[stage]; ++block) trained += model.blocks[next++].trained;
    trained /= tensor_ranks(choice);
    if (keeps_parameters) stages[stage].parameters = bytes_of(trained, gathered);
    // Weights' gradients of a split backward may stay in the dtype that computes.
    stages[stage].gradients =
        bytes_of(trained, splits_backward(choice.pipeline.schedule) ? gathered : Dtype::float32);
  }
  const std::int64_t tokens = choice.batch * inputs.training.length;
  stages.back().output =
      bytes_of(tokens * inputs.model.decoder->vocabulary / tensor_ranks(choice),
               compute_dtype(choice.precision).value_or(parameter_dtype(choice.precision)));
  return stages;
}

/// The most of activations, and of what is whole beside them, in a rank's order.
Bytes held_in_order(const ActionOrder& order, const StageCosts& costs,
                    const std::vector<WholeOfStage>& whole, int micro_batches) {
  struct Done {
    int forwards = 0, weights = 0;
  };
  std::vector<Done> done(whole.size());
  Bytes held, most;
  for (const ActionSlot& slot : order)
    for (const Action& action : slot.actions()) {
      const auto at = static_cast<std::size_t>(action.stage);
      const WholeOfStage& stage = whole[at];
      if (action.kind == ActionKind::forward) {
        if (done[at].forwards++ == 0) held += stage.parameters;
        most = std::max(most, held += costs.kept[at] + stage.output);
      }
      if (is_input_backward(action.kind)) held -= costs.kept[at];
      if (!ends_weight_gradient(action.kind)) continue;
      if (done[at].weights++ == 0) most = std::max(most, held += stage.gradients);
      if (done[at].weights == micro_batches) held -= stage.gradients + stage.parameters;
    }
  return most;
}

/// Kernels that share a host's cores never take less than while the best number of stages computes.
Duration on_shared_cores(Duration time, const Choice& choice, const HardwareProfile& profile) {
  const std::vector<double> factors =
      core_sharing_of(profile, static_cast<std::size_t>(choice.mesh.pipeline),
                      choice.mesh.replicate * choice.mesh.shard);
  if (factors.empty()) return time;
  return Duration::from_seconds(time.seconds() * *std::ranges::min_element(factors));
}

ModelCosts known_model_costs(const Choice& choice, const TrialInputs& inputs);

/// Of blocks that are checkpointed here and there, each as in a model where all or none are.
ModelCosts sparse_model_costs(const Choice& choice, const TrialInputs& inputs) {
  Choice none = choice, full = choice;
  none.checkpointing = {};
  full.checkpointing = {.every = 1};
  ModelCosts costs = known_model_costs(none, inputs);
  const ModelCosts checkpointed = known_model_costs(full, inputs);
  const auto every = static_cast<std::size_t>(choice.checkpointing.every);
  for (std::size_t i = every - 1; i < costs.blocks.size(); i += every)
    costs.blocks[i] = checkpointed.blocks[i];
  return costs;
}

ModelCosts known_model_costs(const Choice& choice, const TrialInputs& inputs) {
  if (choice.torchtitan && is_sparse(choice.checkpointing))
    return sparse_model_costs(choice, inputs);
  if (inputs.findings == nullptr) return model_costs(choice, inputs);
  const PlainKey key = plain_key(choice);
  if (auto known = inputs.findings->parts(key)) return *known;
  const ModelCosts costs = model_costs(choice, inputs);
  inputs.findings->keep(key, costs);
  return costs;
}

}  // namespace

std::int64_t elements_in_stages(const Model& model) {
  const ModelElements elements = elements_of(model);
  std::int64_t sum = elements.embedding.trained + (elements.tied ? 0 : elements.head.trained);
  for (const PartElements& block : elements.blocks) sum += block.trained;
  return sum;
}

/// FSDP2 shards all of them, and keeps the parameters in float32 without copies where it computes
/// in bfloat16.
ModelStates torchtitan_states(const Choice& choice, std::int64_t trained,
                              const TrialInputs& inputs) {
  if (choice.precision == TrainingPrecision::bf16) return {};
  return zero_paper_states(trained, ShardingStrategy::full_shard, choice.mesh.shard,
                           inputs.training.optimizer, Precision::fp32, Dtype::float32);
}

ModelCosts model_costs(const Choice& choice, const TrialInputs& inputs) {
  if (choice.runtime != Runtime::native) return torchtitan_costs(choice, inputs);
  const Schedule schedule = native_alone(choice, inputs);
  const std::vector<Duration> times = operation_times(schedule, inputs.costs);
  ModelCosts costs;
  costs.launch = clock_options(schedule, inputs.profile).launch;
  const Parts parts(schedule, inputs.model, costs);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Operation& op = schedule.operations[i];
    if (op.kind != OperationKind::compute || op.detail == Operation::no_kernel ||
        (op.phase != Phase::forward && op.phase != Phase::backward))
      continue;
    const Kernel& kernel = schedule.kernels[op.detail];
    if (!is_in_every_micro_batch(kernel)) continue;
    const KernelKind kind = kernel.kind();
    PartCost& part = parts.of(op);
    add_time(op, kind, times[i], parts.kind_of(part), part);
  }
  for (const Buffer& buffer : schedule.buffers)
    if (is_kept(buffer, schedule) && parts.kind_of(parts.of(buffer)) != PartKind::head)
      parts.of(buffer).kept += buffer.bytes;
  return costs;
}

Duration CollectiveTimes::of(const Ask& ask) {
  const auto [known, is_new] = known_.try_emplace(ask);
  if (is_new)
    known->second = costs_.collective_time(
        ask.kind, ask.payload,
        {.name = {},
         .ranks = Ranks::spaced(ask.first, ask.apart, static_cast<std::size_t>(ask.ranks))});
  return known->second;
}

PipelineSetup setup_of(const Choice& choice) {
  return {.kind = choice.pipeline.schedule,
          .ranks = choice.mesh.pipeline,
          .stages_per_rank = choice.pipeline.stages_per_rank,
          .micro_batches = choice.micro_batches,
          .options = {}};
}

std::map<PlainKey, ModelCosts> model_costs_of(std::span<const Choice> choices,
                                              const TrialInputs& inputs, unsigned threads,
                                              const std::stop_token& stop) {
  std::map<PlainKey, const Choice*> examples;
  for (const Choice& choice : choices)
    if (is_pipelined(choice)) examples.try_emplace(plain_key(choice), &choice);
  const std::vector<std::pair<PlainKey, const Choice*>> keys(examples.begin(), examples.end());
  std::vector<ModelCosts> costs(keys.size());
  for_each_index(keys.size(), threads, [&](std::size_t i) {
    try {
      if (!stop.stop_requested()) costs[i] = known_model_costs(*keys[i].second, inputs);
    } catch (const Error&) {
      // What cannot be scheduled has no costs: trying it out says why.
    }
  });
  std::map<PlainKey, ModelCosts> result;
  for (std::size_t i = 0; i < keys.size(); ++i) result.emplace(keys[i].first, std::move(costs[i]));
  return result;
}

OrderKey order_key(const PipelineSetup& setup) {
  return {setup.kind, setup.ranks, setup.stages_per_rank, setup.micro_batches};
}

PipelineBounds::Orders PipelineBounds::known_orders(const PipelineSetup& setup) const {
  const auto computed = [&] {
    return std::make_shared<const std::vector<ActionOrder>>(compute_orders(setup));
  };
  if (inputs_.findings == nullptr) return computed();
  if (const auto known = inputs_.findings->orders(order_key(setup))) return *known;
  Orders orders = computed();
  inputs_.findings->keep(order_key(setup), orders);
  return orders;
}

void PipelineBounds::add(std::span<const Choice> choices, unsigned threads,
                         const std::stop_token& stop) {
  std::vector<Choice> further;
  std::ranges::copy_if(choices, std::back_inserter(further), [&](const Choice& choice) {
    return is_pipelined(choice) && !costs_.contains(plain_key(choice));
  });
  add(choices, model_costs_of(further, inputs_, threads, stop), stop);
}

void PipelineBounds::add(std::span<const Choice> choices, std::map<PlainKey, ModelCosts> costs,
                         const std::stop_token& stop) {
  costs_.merge(costs);
  if (costs_.empty()) return;
  if (elements_.blocks.empty()) elements_ = known_elements(inputs_);
  for (const Choice& choice : choices) {
    if (stop.stop_requested()) return;
    if (!has_costs(choice)) continue;
    const PipelineSetup setup = setup_of(choice);
    if (const auto [order, is_new] = orders_.try_emplace(order_key(setup)); is_new)
      order->second = known_orders(setup);
  }
}

bool PipelineBounds::has_costs(const Choice& choice) const {
  if (!is_pipelined(choice)) return false;
  const auto costs = costs_.find(plain_key(choice));
  return costs != costs_.end() && !costs->second.blocks.empty();
}

bool PipelineBounds::is_known(const Choice& choice) const {
  return has_costs(choice) && orders_.contains(order_key(setup_of(choice)));
}

/// What follows from how layers are dealt out.
struct PipelineBounds::Dealt {
  PipelineSetup setup;
  std::vector<int> blocks;  ///< by stage
  StageCosts stages;
  std::vector<PartElements> elements;  ///< by rank: of one that shares it
};

PipelineBounds::Dealt PipelineBounds::dealt(const Choice& choice) const {
  Dealt result{.setup = setup_of(choice), .blocks = {}, .stages = {}, .elements = {}};
  result.blocks =
      blocks_of_stages(inputs_.model, choice.pipeline, result.setup.stages(), "--pipeline-stages");
  result.stages = stage_costs(costs_.at(plain_key(choice)), result.blocks);
  result.elements = elements_of_ranks(elements_, result.blocks, result.setup);
  for (PartElements& part : result.elements) {
    part.trained /= tensor_ranks(choice);
    part.all /= tensor_ranks(choice);
  }
  return result;
}

StageTimes PipelineBounds::times_of(const Choice& choice, const Dealt& dealt) const {
  const StageCommunication communication(choice, collectives_, precision_of(choice, inputs_));
  StageTimes times{.costs = dealt.stages,
                   .first_gather = {},
                   .gathers = {},
                   .reductions = {},
                   .updates = {},
                   .states = {}};
  if (choice.mesh.shard > 1) {
    const std::int64_t embedding = elements_.embedding.all / tensor_ranks(choice);
    times.first_gather = communication.gather(0, {.trained = embedding, .all = embedding});
  }
  for (int rank = 0; rank < dealt.setup.ranks; ++rank) {
    const PartElements& elements = dealt.elements[static_cast<std::size_t>(rank)];
    const ModelStates states = states_of(choice, elements.trained, inputs_);
    times.gathers.push_back(communication.gather(rank, elements));
    times.reductions.push_back(communication.reduction(rank, elements));
    times.updates.push_back((states.parameters + states.gradients + states.optimizer_states) /
                            inputs_.profile.memory_bandwidth);
    times.states.push_back(states.parameters + states.optimizer_states);
  }
  return times;
}

StageTimes PipelineBounds::times_of(const Choice& choice) const {
  if (!is_known(choice))
    throw Error({.where = text_of(choice), .what = "its stages cannot be recorded"});
  return times_of(choice, dealt(choice));
}

const std::vector<ActionOrder>& PipelineBounds::orders_of(const Choice& choice) const {
  return *orders_.at(order_key(setup_of(choice)));
}

/// By rank, beside sharded parameters and optimizer states.
std::vector<Bytes> PipelineBounds::held(const Choice& choice, const Dealt& dealt) const {
  const std::vector<ActionOrder>& orders = *orders_.at(order_key(dealt.setup));
  const auto compute = [&] {
    const int again = checkpointed_micro_batches(choice.pipeline.checkpoint, choice.micro_batches);
    const std::vector<WholeOfStage> whole =
        whole_of_stages(choice, dealt.blocks, elements_, inputs_);
    std::vector<Bytes> ranks;
    for (std::size_t rank = 0; rank < orders.size(); ++rank) {
      const Bytes kept = kept_in_order(orders[rank], dealt.stages, again);
      if (choice.runtime == Runtime::native) {
        ranks.push_back(kept);
        continue;
      }
      const bool is_last = rank + 1 == orders.size();
      ranks.push_back(held_unsharded(choice, dealt.elements[rank].trained,
                                     {.of_micro_batch = dealt.stages.kept[rank],
                                      .most = kept,
                                      .outputs = is_last ? outputs_of(choice, inputs_) : Bytes{}}));
      if (choice.precision != TrainingPrecision::bf16)
        ranks.back() = std::max(
            ranks.back(), held_in_order(orders[rank], dealt.stages, whole, choice.micro_batches));
    }
    return ranks;
  };
  if (!choice.torchtitan) return compute();
  const auto [known, is_new] = held_.try_emplace(
      HeldKey{order_key(dealt.setup), dealt.blocks, plain_key(choice), choice.precision,
              zero_stage(choice.sharding) == 3, choice.mesh.shard > 1});
  if (is_new) known->second = compute();
  return known->second;
}

Bounds PipelineBounds::of(const Choice& choice) const {
  if (!is_known(choice)) return {};
  const Dealt dealt = this->dealt(choice);
  const PipelineSetup& setup = dealt.setup;
  const int again = checkpointed_micro_batches(choice.pipeline.checkpoint, choice.micro_batches);
  const std::vector<Bytes> held = this->held(choice, dealt);
  const StageCommunication communication(choice, collectives_, precision_of(choice, inputs_));
  const Duration computing =
      on_shared_cores(pipeline_time_bound(setup, dealt.stages, again), choice, inputs_.profile);
  Bounds bounds{.time = std::max(computing, pipeline_host_bound(setup, dealt.stages)),
                .memory = {}};
  for (int rank = 0; rank < setup.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const ModelStates states = states_of(choice, dealt.elements[at].trained, inputs_);
    if (!choice.torchtitan)
      bounds.time = std::max(bounds.time, communication.of(rank, dealt.elements[at]));
    const Bytes beside =
        choice.runtime == Runtime::native ? std::max(held[at], states.gradients) : held[at];
    bounds.memory = std::max(bounds.memory, states.parameters + states.optimizer_states + beside);
    // At the step's end the last stage joins its outputs in one more tensor.
    if (choice.torchtitan && rank == rank_of_stages(setup).back())
      bounds.memory = std::max(bounds.memory, states.parameters + states.optimizer_states +
                                                  outputs_of(choice, inputs_) * 2);
  }
  if (!choice.torchtitan) return bounds;
  bounds.memory += inputs_.profile.context_memory.value_or(Bytes{});
  const StageTimes times = times_of(choice, dealt);
  const std::vector<Duration> ranks = pipeline_rank_bounds(setup, dealt.stages, again);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Duration reduction = has_single_stage(setup.kind) ? times.reductions[rank] : Duration{};
    bounds.time =
        std::max(bounds.time, times.first_gather + ranks[rank] + reduction + times.updates[rank]);
  }
  return bounds;
}

}  // namespace shardscope::planner
