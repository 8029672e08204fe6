// What `shardscope plan` finds: the best few, why the others lost, and where the given file stands.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cli/plan_inputs.h"
#include "cli/plan_summary.h"
#include "sim/planner/search.h"
#include "traces/summary.h"

namespace shardscope {

struct Candidate {
  planner::Choice choice;
  Summary summary;
  int place = 0;          ///< 1 is the best
  std::string why;        ///< it is not the best: "4.2% slower: 3.1 ms more exposed communication"
  bool ties = false;      ///< its band overlaps the best one's
  bool on_front = false;  ///< nothing that was simulated is both faster and smaller
  double gpu_hours = 0;   ///< per 10^9 tokens
};

/// The best of one runtime's strategy, or why there is none.
struct Rejected {
  std::string strategy;  ///< "fsdp2 full_shard"
  std::string why;
};

struct GivenFile {
  std::string name;
  std::string strategy;  ///< "fsdp1 full_shard, batch 8"
  Summary summary;
  std::string refused;             ///< why there is no prediction of it; empty: there is one
  std::size_t faster_choices = 0;  ///< among the places
  /// The fewest changes that make it fit, or make it faster.
  std::vector<std::string> changes;
  std::optional<Candidate> changed;
};

struct PlanAnswer {
  std::vector<Candidate> candidates;  ///< by place; those of the front behind the best few
  std::size_t best_few = 0;           ///< of the candidates: the places asked for
  std::size_t chosen = 0;             ///< of the candidates: the one that is written
  std::string why_not_first;          ///< where that is not the first
  std::vector<Rejected> rejected;     ///< in the order of enumeration
  std::vector<planner::Dropped> dropped;
  std::vector<std::string> remarks;  ///< what turns out other than is usually said
  std::vector<std::string> advice;   ///< where nothing fits: how far off, and what would do
  std::optional<GivenFile> given;
  std::size_t choices = 0, simulated = 0;
  double elapsed_s = 0;
  bool interrupted = false;
};

struct PlanProgress {
  std::function<void(const planner::Progress&)> report;
  std::stop_token stop;
};

PlanAnswer plan(const PlanInputs& inputs, const PlanOptions& options, const PlanProgress& progress);

}  // namespace shardscope
