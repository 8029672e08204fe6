#include "sim/planner/torchtitan_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/error.h"
#include "core/native/pipeline_stages.h"
#include "core/pytorch/parallel/model_shape.h"
#include "sim/engine/clock_options.h"
#include "sim/kernels/compiled_memory.h"
#include "sim/planner/plain_step.h"
#include "sim/planner/stopped_recording.h"

namespace shardscope::planner {
namespace {

using eager::parallel::MeshAxis;
using eager::parallel::ParallelSettings;

int ranks_of(const TorchtitanPipeline& pipeline) {
  return eager::parallel::pipeline_setup_of(pipeline.settings).ranks;
}

/// torchtitan's order. Beside a pipeline nothing is sharded without several shards.
std::vector<MeshAxis> axes_of(const Choice& choice) {
  const Mesh& mesh = choice.mesh;
  std::vector<MeshAxis> axes{{"pp", mesh.pipeline},
                             {"dp_replicate", mesh.replicate},
                             {"dp_shard", mesh.shard},
                             {"cp", context_ranks(choice)},
                             {"tp", tensor_ranks(choice)}};
  if (is_pipelined(choice))
    std::erase_if(axes, [](const MeshAxis& axis) { return axis.size == 1; });
  else
    axes.erase(axes.begin());
  return axes;
}

/// Ring attention has no cuDNN.
eager::SessionSettings session_of(const Choice& choice, const TrialInputs& inputs) {
  eager::SessionSettings session{.compute_capability = inputs.training.session.compute_capability};
  if (context_ranks(choice) > 1) session.attention = {.cudnn = false};
  return session;
}

/// Source: torchtitan 01db32e, optimizer.py (fused by default).
eager::OptimizerSettings optimizer_of(const Training& training) {
  return {.rule = training.loop.optimizer.rule,
          .implementation = eager::OptimizerImplementation::fused,
          .weight_decay = training.optimizer.weight_decay != 0};
}

void set_precision(TrainingPrecision precision, ParallelSettings& settings) {
  settings.dtype = parameter_dtype(precision);
  settings.mixed_precision = {.param_dtype = compute_dtype(precision),
                              .reduce_dtype = torchtitan_reduce_dtype};
}

/// torchtitan takes torchao's own styles of tensor parallelism for tensorwise casts alone.
void set_float8(eager::parallel::Float8Recipe recipe, ParallelSettings& settings) {
  const bool sharded = std::ranges::any_of(
      settings.mesh, [](const MeshAxis& axis) { return axis.name == "dp_shard" && axis.size > 1; });
  settings.float8 = eager::parallel::float8_settings(recipe, sharded);
  settings.float8_tensor_parallel = recipe == eager::parallel::Float8Recipe::tensorwise;
}

void set_checkpointing(const eager::CheckpointChoice& choice, const Model& model,
                       ParallelSettings& settings) {
  settings.checkpoint_every = choice.every;
  settings.checkpoint = eager::checkpointing_of(model, choice).options;
  settings.checkpoint.preserve_rng_state = false;
}

void set_pipeline(const TorchtitanJob& job, const std::vector<int>& layers,
                  ParallelSettings& settings) {
  settings.schedule = job.pipeline.schedule;
  settings.stages_per_rank = job.pipeline.stages_per_rank;
  settings.stage_layers.assign(layers.begin(), layers.end());
  settings.batch *= job.micro_batches;
}

constexpr std::string_view stages_option = "--pipeline-stages";

int stages_of(const TorchtitanJob& job) {
  return job.mesh.front().size * job.pipeline.stages_per_rank;
}

PredictedPipeline predicted_pipeline(const TorchtitanPipeline& pipeline) {
  const ParallelSettings& settings = pipeline.settings;
  const std::vector<int> rank_of_stage =
      rank_of_stages(eager::parallel::pipeline_setup_of(settings));
  const auto ranks = static_cast<std::size_t>(ranks_of(pipeline));
  PredictedPipeline result{.schedule = std::string(name_of(settings.schedule)),
                           .stages = std::vector<std::vector<int>>(ranks),
                           .layers = std::vector<int>(ranks, 0)};
  for (std::size_t stage = 0; stage < rank_of_stage.size(); ++stage) {
    const auto rank = static_cast<std::size_t>(rank_of_stage[stage]);
    result.stages[rank].push_back(static_cast<int>(stage));
    result.layers[rank] += static_cast<int>(settings.stage_layers[stage]);
  }
  return result;
}

std::int64_t tokens_per_step(const TorchtitanPipeline& pipeline) {
  std::int64_t tokens = pipeline.settings.batch * pipeline.settings.length;
  if (ranks_of(pipeline) == 1) tokens *= pipeline.settings.micro_batches;
  for (const MeshAxis& axis : pipeline.settings.mesh)
    if (axis.name == "dp_replicate" || axis.name == "dp_shard") tokens *= axis.size;
  return tokens;
}

eager::parallel::MixtureCheckpoint mixture_checkpoint(const eager::CheckpointChoice& choice) {
  if (choice.every == 0) return eager::parallel::MixtureCheckpoint::none;
  return choice.selective ? eager::parallel::MixtureCheckpoint::selective
                          : eager::parallel::MixtureCheckpoint::full;
}

ParallelSettings mixture_settings(const TorchtitanJob& job) {
  ParallelSettings settings{.shape = {},
                            .mesh = job.mesh,
                            .batch = job.batch,
                            .length = job.length,
                            .reshard_after_forward = job.reshards,
                            .optimizer = job.optimizer,
                            .clips = job.clips,
                            .micro_batches = job.micro_batches};
  set_precision(job.precision, settings);
  const eager::parallel::MixtureShape shape =
      eager::parallel::mixture_shape(job.model, *job.config);
  if (job.mesh.front().name == "pp")
    set_pipeline(job,
                 blocks_of_stages(static_cast<int>(shape.layers), job.pipeline, stages_of(job),
                                  stages_option),
                 settings);
  settings.mixture = eager::parallel::MixtureSettings{
      .shape = shape,
      .mesh = job.mesh,
      .schedule = settings.schedule,
      .stages_per_rank = settings.stages_per_rank,
      .stage_layers = settings.stage_layers,
      .expert_ranks = job.expert_ranks,
      // One rank has no more than all tokens.
      .load = std::min(job.expert_load, static_cast<double>(job.expert_ranks)),
      .batch = job.batch,
      .length = job.length,
      .micro_batches = job.micro_batches,
      .dtype = settings.dtype,
      .mixed_precision = settings.mixed_precision,
      .reshard_after_forward = job.reshards,
      .checkpoint = mixture_checkpoint(job.checkpointing),
      .float8 = job.float8,
      .optimizer = job.optimizer,
      .clips = job.clips};
  settings.mixture->mixed_precision.cast_forward_inputs = false;
  return settings;
}

/// Of one micro-batch of a stage.
PartCost cost_of_stage(const Schedule& schedule, const TrialInputs& inputs) {
  const std::vector<Duration> times = claimed_times(schedule, inputs);
  const std::vector<Duration> awaited = awaited_collectives(schedule, times);
  PartCost cost;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Operation& op = schedule.operations[i];
    const Duration time = op.kind == OperationKind::compute ? times[i] : awaited[i];
    if (op.phase == Phase::forward) cost.time.forward += time;
    if (op.phase == Phase::backward) cost.time.input_backward += time;
    if (op.kind != OperationKind::compute || times[i] == Duration{}) continue;
    if (op.phase == Phase::forward || op.phase == Phase::backward) ++cost.operations;
  }
  Bytes kept;
  for (const HostAction& action : schedule.program.actions) {
    if (issues_operation(action.kind) &&
        schedule.operations[action.subject].phase == Phase::backward)
      break;
    const bool allocates = action.kind == HostActionKind::allocate;
    if (!allocates && action.kind != HostActionKind::free) continue;
    const Buffer& buffer = schedule.buffers[action.subject];
    if (buffer.category != MemoryCategory::activations) continue;
    kept = allocates ? kept + buffer.bytes : kept - buffer.bytes;
  }
  cost.kept = kept;
  return cost;
}

/// What `more` has beyond `less`.
PartCost difference(const PartCost& more, const PartCost& less) {
  return {.time = {.forward = more.time.forward - less.time.forward,
                   .input_backward = more.time.input_backward - less.time.input_backward,
                   .weight_backward = {}},
          .last_forward = {},
          .kept = std::max(Bytes{}, more.kept - less.kept),
          .operations = more.operations - less.operations};
}

/// One micro-batch of two stages of so many blocks each, whose ranks share blocks alone.
std::vector<Schedule> small_stages(const Choice& choice, const TrialInputs& inputs, int blocks) {
  Choice small = choice;
  small.mesh = {.pipeline = 2};
  small.micro_batches = 1;
  small.pipeline = {.schedule = PipelineScheduleKind::gpipe};
  TorchtitanPipeline pipeline = torchtitan_pipeline(small, inputs);
  ParallelSettings& settings = pipeline.settings;
  settings.shape.layers = 2 * blocks;
  settings.stage_layers = {blocks, blocks};
  settings.mixed_precision = {};
  settings.dtype = compute_dtype(choice.precision).value_or(settings.dtype);
  settings.clips = false;
  static constexpr std::array once{"once"};
  return schedules_of_stages(pipeline, once);
}

}  // namespace

bool TorchtitanJob::has_layers_of_0_3() const {
  return asks_layers_of_0_3 || eager::parallel::is_mixture(model);
}

ParallelSettings torchtitan_settings(const TorchtitanJob& job) {
  if (job.has_layers_of_0_3() && job.config != nullptr) return mixture_settings(job);
  ParallelSettings settings{.shape = eager::parallel::llama_shape(job.model),
                            .mesh = job.mesh,
                            .batch = job.batch,
                            .length = job.length,
                            .sequence_parallel = true,
                            .loss_parallel = true,
                            .reshard_after_forward = job.reshards,
                            .optimizer = job.optimizer,
                            .clips = job.clips,
                            .micro_batches = job.micro_batches};
  set_precision(job.precision, settings);
  set_float8(job.float8, settings);
  set_checkpointing(job.checkpointing, job.model, settings);
  if (job.mesh.front().name == "pp")
    set_pipeline(job, blocks_of_stages(job.model, job.pipeline, stages_of(job), stages_option),
                 settings);
  return settings;
}

TorchtitanPipeline torchtitan_pipeline(const Choice& choice, const TrialInputs& inputs) {
  TorchtitanPipeline pipeline{
      .settings = torchtitan_settings({.model = inputs.uncut ? *inputs.uncut : inputs.model,
                                       .mesh = axes_of(choice),
                                       .batch = choice.batch,
                                       .length = inputs.training.length,
                                       .micro_batches = choice.micro_batches,
                                       .reshards = zero_stage(choice.sharding) == 3,
                                       .clips = inputs.training.clip > 0,
                                       .precision = choice.precision,
                                       .optimizer = optimizer_of(inputs.training),
                                       .checkpointing = choice.checkpointing,
                                       .pipeline = choice.pipeline,
                                       .float8 = inputs.training.float8,
                                       .config = &inputs.config,
                                       .expert_ranks = expert_ranks(choice),
                                       .expert_load = inputs.training.expert_load}),
      .place = {.world = world_of(choice)},
      .session = session_of(choice, inputs),
      .strategy = std::string(name_of(choice.sharding)),
      .precision = std::string(name_of(choice.precision)),
      .allocator = inputs.allocator,
      .assumed = {},
      .compiled = inputs.training.compiled};
  if (inputs.blocks > 0) pipeline.settings.shape.layers = inputs.blocks;
  if (inputs.blocks > 0 && pipeline.settings.mixture)
    pipeline.settings.mixture->shape.layers = inputs.blocks;
  return pipeline;
}

namespace {

/// Chunks go along as steps, whose places in the program move with it.
Schedule compiled_with(std::vector<eager::parallel::RecordedChunk>* chunks, Schedule schedule,
                       CompileScope scope) {
  if (chunks == nullptr) return compiled(std::move(schedule), scope);
  const std::size_t steps = schedule.steps.size();
  for (const eager::parallel::RecordedChunk& chunk : *chunks)
    schedule.steps.push_back({.label = {}, .operations = {}, .actions = chunk.actions});
  Schedule result = compiled(std::move(schedule), scope);
  for (std::size_t i = 0; i < chunks->size(); ++i)
    (*chunks)[i].actions = result.steps[steps + i].actions;
  result.steps.resize(steps);
  return result;
}

}  // namespace

Schedule schedule_of_rank(const TorchtitanPipeline& pipeline, int rank,
                          const RankRecording& recording) {
  StoppedRecording stopped(recording.stop, recording.listener);
  const bool is_pipeline = ranks_of(pipeline) > 1;
  const int ranks_of_stage = pipeline.place.world / ranks_of(pipeline);
  Schedule schedule = eager::parallel::recorded_training(
      pipeline.settings,
      {.world = pipeline.place.world,
       .rank = rank * ranks_of_stage + pipeline.place.rank % ranks_of_stage},
      pipeline.session, eager::kernel_device(pipeline.session.compute_capability), recording.steps,
      &stopped, recording.chunks);
  schedule.strategy.runtime = Runtime::fsdp2;
  schedule.strategy.mesh.pipeline = ranks_of(pipeline);
  schedule.workload.batch =
      pipeline.settings.batch / (is_pipeline ? pipeline.settings.micro_batches : 1);
  schedule.workload.length = pipeline.settings.length;
  schedule.workload.micro_batches = pipeline.settings.micro_batches;
  schedule.assumed = pipeline.assumed;
  return pipeline.compiled == CompileScope::none
             ? schedule
             : compiled_with(recording.chunks, std::move(schedule), pipeline.compiled);
}

std::vector<Schedule> schedules_of_stages(const TorchtitanPipeline& pipeline,
                                          std::span<const char* const> steps,
                                          const std::stop_token& stop) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < ranks_of(pipeline); ++rank)
    schedules.push_back(schedule_of_rank(pipeline, rank, {.steps = steps, .stop = stop}));
  return schedules;
}

namespace {

PredictedRun predicted_run(const TorchtitanPipeline& pipeline) {
  return {.strategy = pipeline.strategy,
          .runtime = "torchtitan",
          .precision = pipeline.precision,
          .compute = pipeline.precision == "fp32" ? Dtype::float32 : Dtype::bfloat16,
          .tokens_per_step = tokens_per_step(pipeline),
          .compiled = pipeline.compiled,
          .allocator = pipeline.allocator};
}

}  // namespace

Prediction predict_alone(Schedule schedule, const TorchtitanPipeline& pipeline,
                         const HardwareProfile& profile, bool with_band) {
  PredictedRun run = predicted_run(pipeline);
  run.with_band = with_band;
  return shardscope::predict(std::move(schedule), run, profile);
}

namespace {

/// Of their first two steps: the second takes as long as the one that repeats.
StepTimeMoves moves_of_two_steps(std::vector<Schedule>& schedules, const HardwareProfile& profile) {
  constexpr std::size_t played = 2;
  std::vector<std::vector<Step>> all;
  for (Schedule& schedule : schedules) {
    all.push_back(schedule.steps);
    schedule.steps.resize(played);
  }
  const StepTimeMoves moves = step_time_moves_of_recorded(schedules, profile);
  for (std::size_t i = 0; i < all.size(); ++i) schedules[i].steps = std::move(all[i]);
  return moves;
}

}  // namespace

StepTimeMoves moves_of_stages(std::vector<Prediction> stages, const HardwareProfile& profile) {
  std::vector<Schedule> schedules;
  for (Prediction& stage : stages) schedules.push_back(std::move(stage.schedule));
  return moves_of_two_steps(schedules, profile);
}

StagesWithMoves predict_stages_with_moves(const TorchtitanPipeline& pipeline,
                                          const HardwareProfile& profile,
                                          const std::stop_token& stop) {
  std::vector<Schedule> schedules =
      schedules_of_stages(pipeline, eager::parallel::recorded_steps, stop);
  const StepTimeMoves moves = moves_of_two_steps(schedules, profile);
  return {.stages = predict_recorded_pipeline(std::move(schedules), predicted_run(pipeline),
                                              predicted_pipeline(pipeline), profile, moves),
          .moves = moves};
}

std::vector<Prediction> predict_stages(const TorchtitanPipeline& pipeline,
                                       const HardwareProfile& profile, bool with_band,
                                       const std::stop_token& stop) {
  if (with_band) return predict_stages_with_moves(pipeline, profile, stop).stages;
  PredictedRun run = predicted_run(pipeline);
  run.with_band = false;
  return predict_recorded_pipeline(
      schedules_of_stages(pipeline, eager::parallel::recorded_steps, stop), run,
      predicted_pipeline(pipeline), profile);
}

ModelCosts torchtitan_costs(const Choice& choice, const TrialInputs& inputs) {
  // Of checkpointing every:2 the second block is checkpointed, and the third is as the first.
  const int period = std::max(1, choice.checkpointing.every);
  std::vector<std::vector<Schedule>> stages;  // of 1, 2, ... blocks
  for (int blocks = 1; blocks <= period + 1; ++blocks)
    stages.push_back(small_stages(choice, inputs, blocks));
  std::vector<PartCost> firsts;
  for (const std::vector<Schedule>& of : stages)
    firsts.push_back(cost_of_stage(of.front(), inputs));
  std::vector<PartCost> added;  // by the block's place in its stage, from the second on
  for (std::size_t i = 1; i < firsts.size(); ++i)
    added.push_back(difference(firsts[i], firsts[i - 1]));
  const PartCost& block = added.back();
  const DeviceClockOptions clock = clock_options(stages.front().front(), inputs.profile);
  ModelCosts costs{.embedding = difference(firsts.front(), block),
                   .head = difference(cost_of_stage(stages.front().back(), inputs), block),
                   .blocks = std::vector(inputs.model.decoder->blocks.size(), block),
                   .launch = std::min(clock.launch, clock.backward_launch),
                   .are_of_places = true};
  const auto cycle = static_cast<std::size_t>(period);
  for (std::size_t i = 0; i < costs.blocks.size(); ++i)
    costs.blocks[i] = added[(i + cycle - 1) % cycle];
  // Of the ends a part is another stage's input.
  costs.embedding.kept = costs.head.kept = {};
  return costs;
}

std::string why_not_in_torchtitan(const Mesh& mesh, TrainingPrecision precision) {
  if (mesh.shard == 1 && precision == TrainingPrecision::bf16_mixed)
    return "torchtitan has mixed precision inside a stage only with FSDP2, over 2 ranks or more";
  return {};
}

}  // namespace shardscope::planner
