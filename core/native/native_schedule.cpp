// The native runtime's rules, pass by pass: units, visits of them in forward and backward, gathers
// and reductions, the optimizer, streams.
#include "core/native/native_schedule.h"

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/native/communication_emitter.h"
#include "core/native/issue_order.h"
#include "core/native/kernel_emitter.h"
#include "core/native/memory_budget.h"
#include "core/native/native_step.h"
#include "core/native/optimizer.h"
#include "core/native/step_plan.h"
#include "core/native/visits.h"
#include "core/schedule/schedule_builder.h"

namespace shardscope {
namespace {

Schedule empty_schedule(const NativeStep& step, int rank) {
  Schedule schedule;
  schedule.strategy = step.strategy;
  schedule.workload = step.workload;
  schedule.rank = rank;
  schedule.world = step.strategy.mesh.world();
  schedule.units = step.plan.units;
  return schedule;
}

void zero_loss(const NativeStorage& storage, ScheduleBuilder& builder) {
  builder.add_kernel({.name = "zero loss", .phase = Phase::zero_grad},
                     FillZeroKernel{.elements = 2},
                     {ScheduleBuilder::part(storage.loss, {.count = 2}, Access::write), {}});
}

/// What emits the actions of a step.
struct Emitters {
  const VisitPlan& plan;
  const OperatorGraph& graph;
  KernelEmitter& kernels;
  CommunicationEmitter& communication;
};

ValueId moved_value(const StageTransfer& transfer, const GraphSegment& segment) {
  switch (transfer.kind) {
    case ActionKind::send_forward:
      return segment.sent;
    case ActionKind::receive_forward:
      return segment.received;
    case ActionKind::send_backward:
      return segment.sent_gradient;
    default:
      return segment.received_gradient;
  }
}

void transfer(const StageTransfer& transfer, const Emitters& to) {
  const StepPlace place{{}, transfer.micro_batch};
  const ValueId value = moved_value(transfer, to.graph.segments[transfer.segment]);
  to.communication.transfer(transfer, place, to.kernels.buffer_of(value, place));
}

void emit(const StepAction& action, const Emitters& to) {
  const StepPlace place{action.unit, action.micro_batch, action.phase};
  switch (action.kind) {
    case StepAction::Kind::compute:
      for (std::uint32_t i = action.operators.begin; i < action.operators.end; ++i)
        to.kernels.emit(*to.plan.visits[action.visit].operators[i], place);
      return;
    case StepAction::Kind::gather:
      return to.communication.gather(place);
    case StepAction::Kind::release:
      return to.communication.release(action.unit);
    case StepAction::Kind::begin_gradients:
      return to.communication.begin_gradients(place);
    case StepAction::Kind::reduce:
      to.kernels.clear_unwritten_gradients(place);
      return to.communication.reduce(place);
    case StepAction::Kind::await_reduction:
      return to.communication.await_reduction(place);
    case StepAction::Kind::transfer:
      return transfer(to.plan.transfers[action.moved], to);
  }
}

void emit_visits(const NativeStep& step, const Emitters& to) {
  const std::vector<Visit>& visits = to.plan.visits;
  std::vector<StepAction> actions =
      with_reductions(compute_actions(visits, to.plan.transfers), visits, step.graph,
                      {.gradients_sharded = step.sharding.gradients,
                       .every_micro_batch = step.strategy.reduce_every_micro_batch,
                       .root_last = step.is_pipelined() && step.part().shares_embedding});
  if (step.sharding.parameters)
    actions = with_gathers(actions, visits, step.strategy.prefetch,
                           step.is_pipelined() ? kept_in_pipeline : kept_after);
  for (const StepAction& action : actions) emit(action, to);
}

VisitPlan plan_visits(const NativeStep& step) {
  if (step.is_pipelined()) return pipelined_visits(step.graph, step.plan, order_of(step.part()));
  return {visits_of(step.graph, step.plan, step.workload.micro_batches), {}};
}

void check_workload(const Workload& workload) {
  const auto positive = [](std::int64_t n, const char* option) {
    if (n > 0) return;
    throw Error({.where = option,
                 .what = "must be positive, got " + std::to_string(n),
                 .way_out = "give at least 1"});
  };
  positive(workload.batch, "--batch");
  positive(workload.length, "--seq");
  positive(workload.micro_batches, "--accumulate");
  constexpr std::int64_t most_rows = std::int64_t{1} << 31;
  if (workload.batch > most_rows / workload.length || workload.micro_batches > 4096) {
    throw Error({.where = "--batch",
                 .what = std::to_string(workload.batch) + " sequences of " +
                         std::to_string(workload.length) + " tokens in " +
                         std::to_string(workload.micro_batches) +
                         " micro-batches are more than one step can hold",
                 .way_out = "give at most 2^31 tokens a micro-batch and 4096 micro-batches"});
  }
}

void check_rank(int rank, const Mesh& mesh) {
  if (rank >= 0 && rank < mesh.world()) return;
  throw Error({.where = "--rank",
               .what = "rank " + std::to_string(rank) + " is not in a world of " +
                       std::to_string(mesh.world()),
               .way_out = "give 0 to " + std::to_string(mesh.world() - 1)});
}

/// `parts`: `pipeline_parts` of the training, which has no memory budget.
Schedule schedule_of(const NativeTraining& training, const PipelineParts& parts, int rank,
                     const Target& target) {
  check_rank(rank, training.strategy.mesh);
  NativeStep step = native_step(training, parts, rank, target);
  ScheduleBuilder builder(empty_schedule(step, rank));
  step.groups = add_groups(step, rank, builder);
  NativeStorage storage = add_storage(step, builder);
  KernelEmitter kernels(step, storage, builder);
  CommunicationEmitter communication(step, storage, builder);

  kernels.emit_setup();
  const auto first = static_cast<std::uint32_t>(builder.schedule().operations.size());
  zero_loss(storage, builder);
  const VisitPlan plan = plan_visits(step);
  emit_visits(step, {plan, step.graph, kernels, communication});
  communication.reduce_loss();
  add_optimizer(step, storage, builder);

  Schedule schedule = builder.finish();
  const auto end = static_cast<std::uint32_t>(schedule.operations.size());
  schedule.steps = {{.label = "steady", .operations = {first, end}}};
  issue_in_order(schedule, target.host);
  return schedule;
}

/// With the checkpointing that its memory budget chooses, where it has one.
NativeTraining within_budget(const NativeTraining& training, const Target& target) {
  NativeTraining within = training;
  if (training.memory_budget == Bytes{}) return within;
  within.strategy.checkpointing = checkpointing_within_budget(training, target);
  within.memory_budget = {};
  return within;
}

void say_budget(const NativeTraining& training, const NativeTraining& within, Schedule& schedule) {
  if (training.memory_budget == Bytes{}) return;
  schedule.assumed.push_back("checkpointing " + text_of(within.strategy.checkpointing) +
                             ", the least that fits the memory budget of " +
                             exact_text(training.memory_budget));
}

}  // namespace

Schedule native_schedule(const Model& model, const Strategy& strategy, const Workload& workload,
                         int rank, const Target& target) {
  return native_schedule({.model = model, .strategy = strategy, .workload = workload}, rank,
                         target);
}

Schedule native_schedule(const NativeTraining& training, int rank, const Target& target) {
  check_workload(training.workload);
  const NativeTraining within = within_budget(training, target);
  Schedule schedule = schedule_of(within, pipeline_parts(within), rank, target);
  say_budget(training, within, schedule);
  return schedule;
}

std::vector<Schedule> native_schedules_of_stages(const NativeTraining& training, int rank,
                                                 const Target& target) {
  check_workload(training.workload);
  const NativeTraining within = within_budget(training, target);
  const PipelineParts parts = pipeline_parts(within);
  const Mesh& mesh = training.strategy.mesh;
  std::vector<Schedule> schedules;
  for (int stage = 0; stage < mesh.pipeline; ++stage) {
    const int peer = data_parallel_rank(mesh, rank) + stage * mesh.replicate * mesh.shard;
    schedules.push_back(schedule_of(within, parts, peer, target));
    say_budget(training, within, schedules.back());
  }
  return schedules;
}

}  // namespace shardscope
