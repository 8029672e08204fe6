#include "sim/planner/plain_step.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/pytorch/runtimes/training/recorded_schedule.h"
#include "sim/allocator/block_sizes.h"
#include "sim/engine/clock_options.h"
#include "sim/kernels/compiled_memory.h"
#include "sim/planner/torchtitan_pipeline.h"

namespace shardscope::planner {
namespace {

/// Where weights are cast to 8 bits, and whether they are gathered so, is the runtime's: of
/// such a step nothing is claimed but products, attention, and what is kept for the backward.
bool casts_weights(const TrialInputs& inputs) {
  return inputs.training.float8 == eager::parallel::Float8Recipe::tensorwise;
}

bool computes(const Operation& op) {
  return op.kind == OperationKind::compute &&
         (op.phase == Phase::forward || op.phase == Phase::backward);
}

bool is_claimed(const Schedule& schedule, const Operation& op, const TrialInputs& inputs) {
  if (!casts_weights(inputs) || op.work == Operation::no_work) return true;
  const WorkKind kind = schedule.works[op.work].kind;
  return kind == WorkKind::matmul || kind == WorkKind::attention_forward ||
         kind == WorkKind::attention_backward;
}

bool counts(MemoryCategory category, const TrialInputs& inputs) {
  return category == MemoryCategory::activations ||
         (category == MemoryCategory::temporaries && !casts_weights(inputs));
}

Schedule recorded_once(const Choice& choice, const TrialInputs& inputs) {
  eager::TrainingSetup setup = training_setup(choice, inputs.model, inputs.training);
  setup.runtime = eager::PlainSetup{};
  setup.world = 1;
  setup.made_on = eager::Device::cuda;
  setup.trainable_dtype = plain_key(choice).parameters;
  setup.loop.micro_batches = 1;
  setup.loop.clips = false;
  setup.float8 = eager::parallel::float8_settings(setup.float8.recipe, false);
  constexpr std::array once{"once"};
  return compiled(eager::recorded_schedule(inputs.model, inputs.config, setup,
                                           eager::kernel_device(setup.session.compute_capability),
                                           {.labels = once, .shapes = false}),
                  setup.compiled);
}

/// Of a mixture ranks share its experts alone.
void leave_fsdp_out(int expert_ranks, Dtype dtype, eager::parallel::MixtureSettings& mixture) {
  mixture.mesh = {{"dp_replicate", 1}, {"dp_shard", expert_ranks}};
  mixture.shards = false;
  mixture.dtype = dtype;
  mixture.micro_batches = 1;
  mixture.clips = false;
}

/// torchtitan's, with FSDP2 left out: ranks share its blocks and sequences alone.
Schedule torchtitan_once(const Choice& choice, const TrialInputs& inputs) {
  TorchtitanPipeline alone = torchtitan_pipeline(choice, inputs);
  eager::parallel::ParallelSettings& settings = alone.settings;
  settings.mesh = {{"cp", context_ranks(choice)}, {"tp", tensor_ranks(choice)}};
  settings.mixed_precision = {};
  settings.dtype = plain_key(choice).parameters;
  settings.float8 = eager::parallel::float8_settings(settings.float8.recipe, false);
  settings.micro_batches = 1;
  settings.clips = false;
  alone.place = {.world = choice.torchtitan->ranks()};
  if (settings.mixture) {
    leave_fsdp_out(expert_ranks(choice), settings.dtype, *settings.mixture);
    alone.place = {.world = expert_ranks(choice)};
  }
  static constexpr std::array once{"once"};
  return schedule_of_rank(alone, 0, {.steps = once});
}

bool is_within_a_stage(OperationKind kind) {
  return kind == OperationKind::all_gather || kind == OperationKind::reduce_scatter ||
         kind == OperationKind::all_reduce || kind == OperationKind::all_to_all;
}

/// Of forward and backward: loading a base has temporaries of its own, before they begin.
Bytes activations_of_program(const Schedule& schedule, const TrialInputs& inputs) {
  Bytes live, highest;
  bool is_loaded = false;
  for (const HostAction& action : schedule.program.actions) {
    const bool allocates = action.kind == HostActionKind::allocate;
    if (issues_operation(action.kind)) {
      const Phase phase = schedule.operations[action.subject].phase;
      if (phase == Phase::optimizer) break;
      is_loaded = is_loaded || phase != Phase::init;
    }
    if (!allocates && action.kind != HostActionKind::free) continue;
    const Buffer& buffer = schedule.buffers[action.subject];
    if (!counts(buffer.category, inputs)) continue;
    const Bytes block{block_bytes(buffer.bytes.count, {})};
    live = allocates ? live + block : live - block;
    if (is_loaded) highest = std::max(highest, live);
  }
  return highest;
}

Bytes activations_of_operations(const Schedule& schedule) {
  Bytes highest;
  for (const CategoryBytes& live : live_bytes(schedule))
    highest = std::max(highest, live[MemoryCategory::activations]);
  return highest;
}

Duration host_time(const Schedule& schedule, const TrialInputs& inputs) {
  const DeviceClockOptions clock = clock_options(schedule, inputs.profile);
  HostCounts counts;
  bool in_backward = false;
  for (const HostAction& action : schedule.program.actions) {
    if (action.kind == HostActionKind::dispatch) counts.dispatch(in_backward, 1);
    if (!issues_operation(action.kind)) continue;
    const Operation& op = schedule.operations[action.subject];
    if (op.phase == Phase::optimizer) break;
    in_backward = is_of_autograd(op);
    if (op.phase != Phase::init) counts.launch(in_backward);
  }
  return {clock.host_ns(counts)};
}

}  // namespace

Schedule native_alone(Choice choice, const TrialInputs& inputs) {
  choice.sharding = ShardingStrategy::no_shard;
  choice.mesh = {};
  choice.pipeline = {};
  choice.micro_batches = 1;
  choice.reduces_every_micro_batch = false;
  return schedule_of(choice, inputs);
}

std::vector<Duration> awaited_collectives(const Schedule& schedule,
                                          const std::vector<Duration>& times) {
  std::vector<Duration> awaited(times.size());
  std::map<std::size_t, Duration> pending;  // what is left of each
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Operation& op = schedule.operations[i];
    if (is_within_a_stage(op.kind)) pending.emplace(i, times[i]);
    if (op.kind != OperationKind::compute) continue;
    for (const OperationId before : schedule.after_of(op)) {
      const auto waited = pending.find(before.value);
      if (waited == pending.end()) continue;
      const Duration wait = std::max(Duration{}, waited->second);
      awaited[waited->first] = wait;
      pending.erase(waited);
      // Meanwhile the others go on, where their communicator is another.
      for (auto& [collective, left] : pending) left = left - wait;
    }
    for (auto& [collective, left] : pending) left = left - times[i];
  }
  return awaited;
}

std::vector<Duration> claimed_times(const Schedule& schedule, const TrialInputs& inputs) {
  const std::vector<Duration> times = operation_times(schedule, inputs.costs);
  if (schedule.memory == MemorySource::arena) return times;
  std::vector<Duration> claimed(times.size());
  for (const HostAction& action : schedule.program.actions)
    if (issues_operation(action.kind) &&
        is_claimed(schedule, schedule.operations[action.subject], inputs))
      claimed[action.subject] = times[action.subject];
  return claimed;
}

PlainKey plain_key(const Choice& choice) {
  PlainKey key{.native = choice.runtime == Runtime::native,
               .torchtitan = choice.torchtitan.has_value(),
               .context = context_ranks(choice),
               .tensor = tensor_ranks(choice),
               .experts = has_experts(choice) ? expert_ranks(choice) : 0,
               .batch = choice.batch,
               .checkpoint_every = choice.checkpointing.every,
               .selective = choice.checkpointing.selective,
               .parameters = parameter_dtype(choice.precision)};
  const std::optional<Dtype> compute = compute_dtype(choice.precision);
  if (!compute) return key;
  if (choice.runtime == Runtime::ddp)
    key.autocast = compute;
  else
    key.parameters = *compute;
  return key;
}

PlainStep plain_step(const Choice& choice, const TrialInputs& inputs) {
  const bool native = choice.runtime == Runtime::native;
  const Schedule schedule = native              ? native_alone(choice, inputs)
                            : choice.torchtitan ? torchtitan_once(choice, inputs)
                                                : recorded_once(choice, inputs);
  const std::vector<Duration> times = claimed_times(schedule, inputs);
  PlainStep result{
      .compute = {},
      .awaited = {},
      .host = native || casts_weights(inputs) ? Duration{} : host_time(schedule, inputs),
      .activations =
          native ? activations_of_operations(schedule) : activations_of_program(schedule, inputs)};
  for (std::size_t i = 0; i < times.size(); ++i)
    if (computes(schedule.operations[i])) result.compute += times[i];
  if (choice.torchtitan)
    for (const Duration wait : awaited_collectives(schedule, times)) result.awaited += wait;
  result.compute += result.awaited;
  return result;
}

}  // namespace shardscope::planner
