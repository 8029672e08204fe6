// The memory that other tools estimate for a model: `model --estimate`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/terminal.h"
#include "core/model/model.h"
#include "core/pytorch/plans/deepspeed_estimators.h"

namespace shardscope {

enum class EstimateTool : std::uint8_t { accelerate, deepspeed };

/// Throws Error naming --estimate.
EstimateTool estimate_tool_of(std::string_view text);

struct EstimateQuestion {
  EstimateTool tool = EstimateTool::accelerate;
  std::string name;          ///< of the model, for the heading
  Model model;               ///< in float32, as both tools load it
  EstimatorCluster cluster;  ///< DeepSpeed's estimate depends on it
};

/// The tables that `accelerate estimate-memory` and DeepSpeed's estimators print.
std::string estimate_text(const EstimateQuestion& question, const Painter& painter);

/// docs/cli.md: `model --estimate --json`.
std::string estimate_json(const EstimateQuestion& question);

}  // namespace shardscope
