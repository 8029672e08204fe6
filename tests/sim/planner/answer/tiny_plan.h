// A plan's inputs without a command line: a small Llama on four devices of two nodes.
#pragma once

#include "sim/planner/answer/candidate.h"
#include "sim/planner/answer/inputs.h"

namespace shardscope::planner {

/// 3 blocks, 2 sequences of 64 tokens for each of 4 ranks, DDP and FSDP2 in mixed bfloat16.
Inputs tiny_plan();

/// What the choices of the tests look like: fsdp2 full_shard on 4 ranks, one micro-batch of 2.
Choice tiny_choice();

/// A summary with what reasons are told of: a step of compute and exposed communication, and what
/// is held.
struct Figures {
  std::int64_t compute_ms = 0, communication_ms = 0;
  Bytes reserved;
};
Summary summary_with(const Figures& figures);

/// `tiny_choice` with these figures.
Candidate candidate_with(const Figures& figures);

}  // namespace shardscope::planner
