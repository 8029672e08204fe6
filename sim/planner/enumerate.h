// Every way to train that a question leaves open, and why the others cannot be.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/format/json_reader.h"
#include "sim/planner/choice.h"
#include "sim/planner/layout_group.h"

namespace shardscope::planner {

/// What is asked for. An empty list leaves nothing: the caller fills in what is usual.
struct Question {
  std::vector<Runtime> runtimes;
  std::vector<TrainingPrecision> precisions;
  int world = 1;
  std::int64_t tokens_per_batch = 0;  ///< of one step of all ranks
  Training training;
  const JsonValue* config = nullptr;  ///< of the model; torchtitan's mixtures are made from it
  bool pipelines = true;              ///< are left open: those of the native runtime
  /// So are those of fsdp2, which torchtitan runs.
  bool torchtitan_pipelines = false;
  /// torchtitan's loop beside the runtimes, with its axes tensor and context, and its pipelines.
  bool torchtitan = false;
  bool all_layouts = false;  ///< of torchtitan: those in groups, too
  /// Sizes of an axis tensor that are weighed under fsdp2, above 1: transformers' tp_plan.
  std::vector<int> tensor = {};
  int ranks_per_node = 0;  ///< among which an axis tensor stays; 0: all are one node
};

/// A strategy that cannot be, or is not looked at.
struct Dropped {
  std::string strategy;  ///< "fsdp2 zero1", "native, checkpointing selective"
  std::string why;
  bool operator==(const Dropped&) const = default;
};

struct Enumeration {
  std::vector<Choice> choices;  ///< by runtime as asked, strategy, mesh, then the other settings
  /// Further layouts of torchtitan, beside those of the choices.
  std::vector<LayoutGroup> groups = {};
  std::vector<Dropped> dropped;
};

/// Throws Error naming --tokens-per-batch, with the nearest sizes that work, where a batch cannot
/// be shared evenly among the ranks.
Enumeration enumerate(const Model& model, const Question& question);

/// Sequences of one rank and step. Throws as `enumerate` does.
std::int64_t sequences_per_rank(const Question& question);
/// Throws Error as `enumerate` does. torchtitan alone needs whole sequences only: ranks may share
/// one.
void check_tokens(const Question& question);

/// Whether `world` ranks share the tokens of a step evenly; of torchtitan alone see check_tokens.
bool shares_evenly(const Question& question, int world);

/// How `world` ranks can stand for this strategy; of a hybrid none where they are no grid.
std::vector<Mesh> meshes_of(ShardingStrategy sharding, int world);

/// Settings of a runtime that differ, its usual one first. `blocks_per_unit` as Choice's.
std::vector<Prefetch> prefetches_of(Runtime runtime, ShardingStrategy sharding,
                                    int blocks_per_unit);

/// Ascending, 1 and `number` among them.
std::vector<std::int64_t> divisors_of(std::int64_t number);

}  // namespace shardscope::planner
