// The files of a run folder (docs/cli.md).
#pragma once

#include <filesystem>
#include <string>

namespace shardscope {

struct RunFolder {
  std::filesystem::path root;

  std::filesystem::path job() const { return root / "job.json"; }
  /// The model's config.json, so that the folder can be moved.
  std::filesystem::path config() const { return root / "config.json"; }
  std::filesystem::path hardware() const { return root / "hardware.json"; }
  /// Copies of the files that options of the prediction name, and of those that these name.
  std::filesystem::path settings() const { return root / "settings"; }
  std::filesystem::path metrics() const { return root / "metrics.jsonl"; }
  std::filesystem::path summary() const { return root / "summary.json"; }
  std::filesystem::path trace(int rank) const {
    return root / ("trace." + std::to_string(rank) + ".json.gz");
  }
  /// The planner's choice that the prediction is of (sim/planner/choice_json.h).
  std::filesystem::path predicted_choice() const { return root / "predicted" / "choice.json"; }
  std::filesystem::path predicted_summary() const { return root / "predicted" / "summary.json"; }
  std::filesystem::path predicted_trace() const { return root / "predicted" / "trace.json.gz"; }
  /// Of a pipeline's rank other than the one that predicted_trace() is of.
  std::filesystem::path predicted_stage_trace(int pipeline_rank) const {
    return root / "predicted" / ("trace.stage" + std::to_string(pipeline_rank) + ".json.gz");
  }
  std::filesystem::path predicted_buffers() const { return root / "predicted" / "buffers.json.gz"; }
  /// Predicted beside profiled, by operation.
  std::filesystem::path comparison_text() const { return root / "comparison.txt"; }
  std::filesystem::path comparison() const { return root / "comparison.json"; }
  std::filesystem::path profiles() const { return root / "profiles"; }
  std::filesystem::path figures() const { return root / "figures"; }
  std::filesystem::path model() const { return root / "model"; }
};

}  // namespace shardscope
