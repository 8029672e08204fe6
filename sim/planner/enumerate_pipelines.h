// The pipelines among the ways to train that a question leaves open.
#pragma once

#include <optional>
#include <vector>

#include "sim/planner/enumerate.h"

namespace shardscope::planner {

/// Of the native runtime, or of fsdp2 as torchtitan runs it, on as many ranks as the question has:
/// every number of stages that divides them under every schedule of `weighed_schedules`, with every
/// sharding that the ranks of a stage can have inside, and micro-batches that are at least as many
/// as the stages. `precisions`: that the runtime has. Why there are none, or not all, is said in
/// `dropped`. `axes`: of torchtitan's loop, beside the question's ranks. Its groups have what its
/// choices have not: every k-th block checkpointed, other layers of each stage, and under
/// `schedules_of_many_stages` up to `most_stages_per_rank`.
Enumeration enumerate_pipelines(const Model& model, const Question& question, Runtime runtime,
                                const std::vector<TrainingPrecision>& precisions,
                                const std::optional<TorchtitanAxes>& axes = {});

/// A schedule with the stages that a rank has in it.
struct WeighedSchedule {
  PipelineScheduleKind kind = PipelineScheduleKind::one_f_one_b;
  int stages_per_rank = 1;
};
/// All of torch.distributed.pipelining. InterleavedZeroBubble with one stage a rank is ZB1P
/// (arXiv:2401.10241).
inline constexpr WeighedSchedule weighed_schedules[] = {
    {PipelineScheduleKind::gpipe, 1},
    {PipelineScheduleKind::one_f_one_b, 1},
    {PipelineScheduleKind::interleaved_1f1b, 2},
    {PipelineScheduleKind::looped_bfs, 2},
    {PipelineScheduleKind::interleaved_zero_bubble, 1},
    {PipelineScheduleKind::zbv_zero_bubble, 2},
    {PipelineScheduleKind::dualpipev, 2}};

/// Schedules that take more stages of a rank, which groups of torchtitan's layouts have.
inline constexpr PipelineScheduleKind schedules_of_many_stages[] = {
    PipelineScheduleKind::interleaved_1f1b, PipelineScheduleKind::looped_bfs,
    PipelineScheduleKind::interleaved_zero_bubble};
inline constexpr int most_stages_per_rank = 8;

/// Forwards of a step (stages x micro-batches) beyond which a pipeline is not weighed: more
/// micro-batches make its bubble hardly smaller, and each costs time to play.
inline constexpr std::int64_t most_forwards = 2048;

/// Micro-batches of a step beyond which what is no pipeline is not weighed: a trial plays each.
inline constexpr std::int64_t most_micro_batches = 2048;
/// Of `strategy`, why these are left out.
Dropped with_more_micro_batches(std::string strategy);

}  // namespace shardscope::planner
