#include "sim/megatron/pipeline.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/model/module_names.h"
#include "core/pipeline/deepspeed_program.h"
#include "sim/cost/cost_model.h"
#include "sim/engine/pipeline_timeline.h"
#include "sim/engine/simulate.h"
#include "traces/analysis.h"

namespace shardscope {
namespace {

constexpr int ends = 2;  // embedding and head
/// The shape of a part, a few numbers of 64 bits.
constexpr Bytes shape_message{128};

/// When something ran.
struct Stretch {
  std::optional<Duration> begin, end;
  void add(const Span& span) {
    if (!begin || span.start < *begin) begin = span.start;
    if (!end || span.end() > *end) end = span.end();
  }
  Duration length() const { return end.value_or(Duration{}) - begin.value_or(Duration{}); }
};

/// Times of one micro-batch in the steady step: of the last but one where there are several,
/// because the last one reduces.
class StageTimes {
 public:
  StageTimes(const Schedule& stage, const HardwareProfile& profile)
      : schedule_(stage), simulation_(play(stage, profile)) {
    const int last = last_micro_batch();
    const int plain = std::max(0, last - 1);
    for (const Span& span : simulation_.trace.spans) {
      if (!counts(span)) continue;
      const Operation& op = operation_of(span);
      if (op.micro_batch == plain) add(span);
      if (op.phase != Phase::backward) continue;
      if (op.micro_batch == 0) first_backward_.add(span);
      if (op.micro_batch == last) last_backward_.add(span);
    }
  }

  PassParts forward() const { return parts(forward_, forward_blocks_); }
  PassParts backward() const {
    PassParts parts = this->parts(backward_, backward_blocks_);
    std::swap(parts.before, parts.behind);
    return parts;
  }
  /// What the backward of the first micro-batch takes less than that of others: it adds no
  /// gradients up.
  Duration saved_by_first() const {
    return std::max(Duration{}, backward_.length() - first_backward_.length());
  }
  /// What of a forward or backward is compute, exposed communication and waiting.
  Accounting forward_accounting() const { return accounting_of(forward_); }
  Accounting backward_accounting() const { return accounting_of(backward_); }
  /// The same from where the last backward would end if it reduced nothing, to the end of the step.
  Accounting update_accounting() const {
    const Duration begin = last_backward_.begin.value_or(Duration{}) + backward_.length();
    const Duration end = simulation_.steps.back().window.end;
    return account(simulation_.trace, {.begin = std::min(begin, end), .end = end});
  }
  /// From where the last backward would end if it reduced nothing, to the end of the step:
  /// reductions, norm, update.
  Duration update() const {
    return simulation_.steps.back().window.end - last_backward_.begin.value_or(Duration{}) -
           backward_.length();
  }

 private:
  static Simulation play(const Schedule& stage, const HardwareProfile& profile) {
    constexpr Bytes endless{1ll << 60};
    return simulate(stage, profile, {.settings = {}, .memory = DeviceCapacity{.total = endless}});
  }

  Accounting accounting_of(const Stretch& stretch) const {
    if (!stretch.begin) return {};
    return account(simulation_.trace, {.begin = *stretch.begin, .end = *stretch.end});
  }

  const Operation& operation_of(const Span& span) const { return schedule_.at(span.operation); }
  bool counts(const Span& span) const {
    if (!span.operation || span.span_class != SpanClass::compute) return false;
    const Operation& op = operation_of(span);
    return static_cast<std::size_t>(op.step) + 1 == schedule_.steps.size() &&
           (op.phase == Phase::forward || op.phase == Phase::backward);
  }
  int last_micro_batch() const {
    int last = 0;
    for (const Span& span : simulation_.trace.spans)
      if (counts(span)) last = std::max<int>(last, operation_of(span).micro_batch);
    return last;
  }

  void add(const Span& span) {
    const Operation& op = operation_of(span);
    const bool in_block = op.owner && is_of_block(schedule_.owners[op.owner.value]);
    const bool forward = op.phase == Phase::forward;
    (forward ? forward_ : backward_).add(span);
    if (in_block) (forward ? forward_blocks_ : backward_blocks_).add(span);
  }

  static PassParts parts(const Stretch& all, const Stretch& blocks) {
    if (!all.begin || !blocks.begin) return {};
    return {.before = *blocks.begin - *all.begin,
            .blocks = *blocks.end - *blocks.begin,
            .behind = *all.end - *blocks.end};
  }

  const Schedule& schedule_;
  Simulation simulation_;
  Stretch forward_, backward_, forward_blocks_, backward_blocks_, first_backward_, last_backward_;
};

Duration scaled(Duration time, double factor) {
  return Duration::from_seconds(time.seconds() * factor);
}

/// `gather`: the time to put together what was divided among tensor ranks. A forward gathers its
/// input; a backward gathers the output that its stage sent in parts, and the gradient that came.
std::vector<ChunkTime> chunk_times(const MegatronPipeline& pipeline, const StageTimes& times,
                                   Duration gather) {
  const PassParts forward = times.forward();
  const PassParts backward = times.backward();
  std::vector<ChunkTime> chunks;
  for (std::size_t stage = 0; stage < pipeline.layers.size(); ++stage) {
    const double share = static_cast<double>(pipeline.layers[stage]) / pipeline.played_layers;
    // The backward is not split: all of it stands as one part.
    ChunkTime chunk{.forward = scaled(forward.blocks, share),
                    .input_backward = scaled(backward.blocks, share),
                    .weight_backward = {}};
    if (stage == 0) {
      chunk.forward += forward.before;
      chunk.input_backward += backward.before;
    } else {
      chunk.forward += gather;
    }
    if (stage + 1 == pipeline.layers.size()) {
      chunk.forward += forward.behind;
      chunk.input_backward += backward.behind;
    } else {
      chunk.input_backward += gather + gather;
    }
    chunks.push_back(chunk);
  }
  return chunks;
}

}  // namespace

bool divide_with_ends(std::int64_t layers, std::int64_t stages) {
  return layers % stages != 0 && (layers + ends) % stages == 0;
}

std::vector<int> equal_layers(std::int64_t layers, int stages) {
  if (divide_with_ends(layers, stages)) {
    std::vector<int> counts(static_cast<std::size_t>(stages),
                            static_cast<int>((layers + ends) / stages));
    --counts.front();
    --counts.back();
    return counts;
  }
  std::vector<int> counts(static_cast<std::size_t>(stages), static_cast<int>(layers / stages));
  for (std::int64_t i = 0; i < layers % stages; ++i) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

std::vector<PipelineProgram> megatron_programs(const MegatronPipeline& pipeline,
                                               int micro_batches) {
  const bool interleaved = pipeline.stages_per_rank > 1;
  const PipelineSetup setup{.kind = interleaved ? PipelineScheduleKind::interleaved_1f1b
                                                : PipelineScheduleKind::one_f_one_b,
                            .ranks = pipeline.ranks,
                            .stages_per_rank = pipeline.stages_per_rank,
                            .micro_batches = micro_batches,
                            .options = {}};
  if (interleaved) return pipeline_programs(setup);
  std::vector<PipelineProgram> programs;
  for (int rank = 0; rank < setup.ranks; ++rank)
    programs.push_back(pipeline.by_deepspeed ? deepspeed_program(rank, setup.ranks, micro_batches)
                                             : single_stage_program(setup, rank));
  return programs;
}

StageParts stage_parts(const Schedule& stage, const HardwareProfile& profile) {
  const StageTimes times(stage, profile);
  return {.forward = times.forward(), .backward = times.backward()};
}

PlayedPipeline play_pipeline(const MegatronPipeline& pipeline, const Schedule& stage,
                             int micro_batches, const HardwareProfile& profile,
                             std::optional<Duration> update) {
  const StageTimes stage_times(stage, profile);
  const CostModel model(profile);
  const auto message = [&](OperationKind kind, Bytes bytes, int distance) {
    return model.collectives().cost(kind, bytes, Ranks::spaced(0, distance, 2)).time;
  };
  const int parts = pipeline.divided_over;
  const Duration gather =
      parts == 1 ? Duration{}
                 : model.collectives()
                       .cost(OperationKind::all_gather, pipeline.activation, Ranks::up_to(parts))
                       .time;
  const PipelineTimes times{
      .chunks = chunk_times(pipeline, stage_times, gather), .transfer = [&](int rank, int peer) {
        const int distance = std::max(1, std::abs(rank - peer)) * pipeline.rank_distance;
        const Duration part = message(OperationKind::send, pipeline.activation / parts, distance);
        return parts == 1 ? part : part + message(OperationKind::send, shape_message, distance);
      }};
  PlayedPipeline played{
      .ranks = pipeline_timeline(megatron_programs(pipeline, micro_batches), times),
      .forward = stage_times.forward_accounting(),
      .backward = stage_times.backward_accounting()};
  for (const std::vector<PlayedAction>& rank : played.ranks)
    for (const PlayedAction& one : rank) played.last_end = std::max(played.last_end, one.end);
  if (!update) played.updated = stage_times.update_accounting();
  played.update = update ? *update : stage_times.update();
  if (pipeline.by_deepspeed) played.update -= stage_times.saved_by_first();
  if (pipeline.shared_gradient.count > 0)
    played.shared_gradient = message(OperationKind::all_reduce, pipeline.shared_gradient,
                                     (pipeline.ranks - 1) * pipeline.rank_distance);
  played.step = played.last_end + played.update + played.shared_gradient;
  return played;
}

Duration pipelined_step(const MegatronPipeline& pipeline, const Schedule& stage, int micro_batches,
                        const HardwareProfile& profile, std::optional<Duration> update) {
  return play_pipeline(pipeline, stage, micro_batches, profile, update).step;
}

}  // namespace shardscope
