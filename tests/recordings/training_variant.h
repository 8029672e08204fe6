// The name of a recorded training run: what it says of how PyTorch ran.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>

#include "core/pipeline/setup.h"
#include "core/schedule/strategy.h"

namespace shardscope::recordings {

/// "fsdp1_full:world=2,ckpt=1" taken apart.
struct TrainingVariant {
  std::string kind;
  std::map<std::string, std::string> options;

  /// The number of an option; `fallback` where it is not given.
  int number(const std::string& option, int fallback) const;
};
TrainingVariant parse_variant(const std::string& name);

/// The run of ours that stands beside it. Variants that differ only in PyTorch's kernels have the
/// same one.
struct OwnRun {
  ShardingStrategy sharding = ShardingStrategy::no_shard;
  int world = 1;
  int split = 1;  ///< a micro-batch is cut into so many
  bool checkpointing = false;
  bool reduce_every_micro_batch = true;
  Precision precision = Precision::fp32;
  /// Of a pipeline of `world` ranks, which all have the same data.
  std::optional<PipelineScheduleKind> pipeline = {};
  int stages_per_rank = 1;
  int data_parallel() const { return pipeline ? 1 : world; }
  auto operator<=>(const OwnRun&) const = default;
};
OwnRun own_run_of(const TrainingVariant& variant);

/// Why we cannot run it ("there is no runtime megatron"); empty: we can.
std::string why_not(const TrainingVariant& variant);

/// Another device than the CPU has one rank; runs of several are none of what is asked of it.
bool is_asked_of(const TrainingVariant& variant, bool other_device);

}  // namespace shardscope::recordings
