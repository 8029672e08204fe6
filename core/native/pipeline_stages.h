// What a rank of a pipeline has of a model, and what it does with it in which order.
#pragma once

#include <optional>
#include <vector>

#include "core/model/model.h"
#include "core/pipeline/action.h"
#include "core/pipeline/choice.h"
#include "core/schedule/strategy.h"

namespace shardscope {

/// Neighbouring blocks of one stage, numbered as the rank's part of the model has them. A model
/// that is not cut has one of all blocks.
struct StageSegment {
  int stage = 0;
  int first_block = 0;
  int blocks = 0;
  bool begins = true;  ///< with the embedding; else with what the stage before sends
  bool ends = true;    ///< with norm, head and loss; else it sends to the next stage
  /// Something before it is trained, so that it sends the gradient of its input back.
  bool gives_gradient = false;
  bool operator==(const StageSegment&) const = default;
};

/// Numbers of blocks of every stage; throws Error naming `where` for more stages than blocks, and
/// for a list that does not fit.
std::vector<int> blocks_of_stages(const Model& model, const PipelineChoice& choice, int stages,
                                  std::string_view where);
/// The same of so many blocks whose sizes are not known, so that they are not dealt out by work.
std::vector<int> blocks_of_stages(int blocks, const PipelineChoice& choice, int stages,
                                  std::string_view where);

/// The part of a pipeline that a rank has.
struct PipelinePart {
  PipelineSetup setup;
  int rank = 0;                        ///< in the pipeline
  Model model;                         ///< all parameters, and the blocks of this rank's stages
  std::vector<bool> has_parameter;     ///< by parameter
  std::vector<StageSegment> segments;  ///< in order of stages
  std::vector<int> rank_of_stage;
  bool shares_embedding = false;       ///< its tied embedding is on another rank, too
  bool keeps_embedding_twice = false;  ///< it is the second of the two, which the norm leaves out
};

/// The pipeline that a strategy and a choice ask for; throws Error or Refusal where that is none
/// that the native runtime can run.
PipelineSetup pipeline_setup(const Strategy& strategy, const PipelineChoice& choice,
                             int micro_batches);
/// Of the pipeline's rank `rank`, not the world's.
PipelinePart pipeline_part(const Model& model, const Strategy& strategy,
                           const PipelineChoice& choice, int micro_batches, int rank);

/// What the rank does: forwards, backwards, sends and receives.
ActionOrder order_of(const PipelinePart& part);

/// The pipeline's rank of a rank of the world.
int pipeline_rank(const Mesh& mesh, int rank);
/// Of `rank` among the ranks of its stage, which share the data.
int data_parallel_rank(const Mesh& mesh, int rank);

/// Of a model that is not cut.
StageSegment whole_model(const Model& model);

}  // namespace shardscope
