// --lengths: how long the sequences of a data set are.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/job_options.h"
#include "cli/output_options.h"
#include "sim/planner/lengths_memory.h"
#include "sim/planner/sequence_lengths.h"

namespace shardscope {

void declare_lengths_option(Command& command, std::optional<std::string>& lengths);

/// What the option names: a file, or "mean=512,max=4096". --seq is the longest of them unless it
/// was given. Throws Error naming the option or the file's line.
std::optional<planner::SequenceLengths> take_lengths(const std::optional<std::string>& option,
                                                     JobOptions& job);

/// What `told` returns; none where it throws Error, and a note says why: the answer beside it
/// holds.
std::optional<planner::LengthsMemory> memory_or_note(
    const OutputOptions& output,
    const std::function<std::optional<planner::LengthsMemory>()>& told);

/// What is said of them beside a prediction of rows of `length` tokens in micro-batches of `batch`.
struct LengthsReport {
  planner::SequenceLengths lengths;
  std::int64_t length = 0, batch = 1;
  double tokens_per_s = 0;  ///< predicted, of the whole job, padding counted
  std::optional<planner::LengthsMemory> memory = {};
};
std::string lengths_text(const LengthsReport& report);
/// The JSON of a summary or plan with the key `lengths`.
std::string with_lengths(const std::string& json, const LengthsReport& report);

}  // namespace shardscope
