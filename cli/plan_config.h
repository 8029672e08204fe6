// A choice of the planner as the file that starts it.
#pragma once

#include <string>
#include <vector>

#include "cli/plan_ground.h"
#include "core/config/convert/convert.h"
#include "core/config/convert/portable_strategy.h"

namespace shardscope {

struct WrittenChoice {
  std::string file;    ///< "accelerate.yaml", "deepspeed.json", "job.json"
  std::string format;  ///< "accelerate-v2", "deepspeed", "job"
  std::string text;
  std::vector<Loss> losses;  ///< what the file cannot say and the script must
};

/// What of the choice no file says and memory depends on, so that the file alone may not fit:
/// "gradients reduced in every micro-batch"; "" where it says enough.
std::string memory_beyond_the_file(const planner::Choice& choice, const PlanGround& ground);

/// accelerate's file for ddp, fsdp1 and fsdp2, DeepSpeed's for its own, a Shardscope job for
/// native.
WrittenChoice written(const planner::Choice& choice, const PlanGround& ground);

}  // namespace shardscope
