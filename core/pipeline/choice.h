// How a training is cut into the stages of a pipeline.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/pipeline/setup.h"

namespace shardscope {

/// How layers are dealt out to stages that no list gives them to.
enum class StageBalance : std::uint8_t {
  layers,  ///< as many layers each; the first stages have one more where they do not divide
  work,    ///< so that the stage with most matrix elements has as few as possible; the head counts
  time,    ///< so that the step of all stages together takes as little time as possible
  memory   ///< so that the largest peak of a rank is as small as possible
};
std::string_view name_of(StageBalance balance);
/// Whether dealing the layers out needs a prediction.
inline bool needs_prediction(StageBalance balance) { return balance >= StageBalance::time; }

/// Micro-batches of which a stage keeps its input alone and runs its whole forward again before
/// their backward: `checkpoint` of torch.distributed.pipeline.sync.Pipe, whose usual one is
/// except_last.
enum class PipelineCheckpoint : std::uint8_t { never, except_last, always };
std::string_view name_of(PipelineCheckpoint checkpoint);
/// Throws Error naming `where` and the choices.
PipelineCheckpoint parse_pipeline_checkpoint(std::string_view text, std::string_view where);
/// The first so many of them: checkpoint_stop of PyTorch 1.13,
/// torch/distributed/pipeline/sync/pipe.py. Example: except_last of 4 micro-batches: 3.
int checkpointed_micro_batches(PipelineCheckpoint checkpoint, int micro_batches);

struct PipelineChoice {
  PipelineScheduleKind schedule = PipelineScheduleKind::one_f_one_b;
  int stages_per_rank = 1;
  StageBalance balance = StageBalance::layers;
  std::vector<int> layers;  ///< of each stage, given by hand; empty: by `balance`
  PipelineCheckpoint checkpoint = PipelineCheckpoint::never;  ///< of GPipe
  bool operator==(const PipelineChoice&) const = default;
};

/// "layers", "work", "time", "memory" or numbers of layers such as "3,4,4,3"; throws Error naming
/// `where`.
void parse_stages(std::string_view text, std::string_view where, PipelineChoice& choice);
std::string text_of_stages(const PipelineChoice& choice);

}  // namespace shardscope
