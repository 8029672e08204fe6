// A choice of the planner as the file that starts it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/config/convert/convert.h"
#include "core/native/job.h"
#include "sim/planner/choice.h"

namespace shardscope::planner {

/// What a file says beside the choice.
struct WrittenFrom {
  const Job& job;  ///< what choices do not decide: model, data, steps, optimizer, clipping
  const Model& model;
  int ranks_per_node = 1;
  CompileScope compiled = CompileScope::none;
  eager::parallel::Float8Recipe float8 = eager::parallel::Float8Recipe::none;
};

struct WrittenChoice {
  std::string file;    ///< "accelerate.yaml", "deepspeed.json", "job.json", "torchtitan.toml"
  std::string format;  ///< "accelerate-v2", "deepspeed", "job"
  std::string text;
  std::vector<Loss> losses;  ///< what the file cannot say and the script must
};

/// What of the choice no file says and memory depends on, so that the file alone may not fit:
/// "gradients reduced in every micro-batch"; "" where it says enough.
std::string memory_beyond_the_file(const Choice& choice, const WrittenFrom& from);

/// What the file alone runs: the choice without what no file says. Compilation, float8 and loading
/// in bf16 stay. None where it cannot run, or without the script divides nothing (axis tensor).
std::optional<Choice> as_the_file_alone(const Choice& choice, const WrittenFrom& from);
/// What as_the_file_alone leaves out: "gradients reduced in every micro-batch, units of 4 blocks".
std::string what_the_file_lacks(const Choice& choice, const WrittenFrom& from);

/// accelerate's file for ddp, fsdp1 and fsdp2, torchtitan's for its loop and pipelines of fsdp2,
/// DeepSpeed's for its own, a Shardscope job for native.
WrittenChoice written(const Choice& choice, const WrittenFrom& from);

}  // namespace shardscope::planner
