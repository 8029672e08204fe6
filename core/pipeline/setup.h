// What a pipeline schedule is asked for, and what PyTorch refuses of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

namespace shardscope {

/// The schedules of torch.distributed.pipelining. GPipe is also what `Pipe(chunks)` ran.
enum class PipelineScheduleKind : std::uint8_t {
  gpipe,
  one_f_one_b,
  interleaved_1f1b,
  looped_bfs,
  interleaved_zero_bubble,
  zbv_zero_bubble,
  dualpipev
};
/// PyTorch's name: "GPipe", "1F1B", "Interleaved1F1B".
std::string_view name_of(PipelineScheduleKind kind);
/// PyTorch's names in any case; throws Error naming `where` and the choices.
PipelineScheduleKind parse_pipeline_schedule(std::string_view text, std::string_view where);
/// GPipe and 1F1B: one stage a rank, without the lowering of the others.
bool has_single_stage(PipelineScheduleKind kind);
/// Rank r has stages r and 2 p - 1 - r; else stages r, r + p, r + 2 p.
bool is_v_shaped(PipelineScheduleKind kind);
/// Backward for inputs and for weights are apart.
bool splits_backward(PipelineScheduleKind kind);

/// How far ahead a rank gathers the parameters of its stages.
enum class UnshardLookahead : std::uint8_t {
  full,      ///< as many stages as may be active
  automatic  ///< min(rank + 2, max_active_stages)
};

/// Arguments of the constructors in PyTorch, with its defaults; GPipe and 1F1B have none.
struct PipelineOptions {
  int max_active_stages = 3;  ///< of a rank, unsharded at once
  /// A policy, or a number of stages for each rank.
  std::variant<UnshardLookahead, std::vector<int>> unshard_lookahead = UnshardLookahead::full;
  bool defer_receives = false;  ///< PyTorch's defer_pp_recv
  bool defer_reduce_grad_wait = false;
  std::optional<int> max_outstanding_sends;  ///< of a rank; none: no limit
  bool operator==(const PipelineOptions&) const = default;
};

struct PipelineSetup {
  PipelineScheduleKind kind = PipelineScheduleKind::one_f_one_b;
  int ranks = 1;  ///< of the pipeline
  int stages_per_rank = 1;
  int micro_batches = 1;
  PipelineOptions options;
  int stages() const { return ranks * stages_per_rank; }
  bool operator==(const PipelineSetup&) const = default;
};

/// Rounds of the interleaved schedules: a round takes micro-batches through all of a rank's stages.
struct Rounds {
  int count = 1;
  int micro_batches = 1;  ///< of a round
};
Rounds rounds_of(const PipelineSetup& setup);

/// Throws Refusal with PyTorch's words where its constructor refuses these counts.
void check_counts(const PipelineSetup& setup);
/// Stages for which each rank gathers ahead; throws Refusal as PyTorch does.
std::vector<int> resolved_lookahead(const PipelineSetup& setup);

/// The rank of every stage.
std::vector<int> rank_of_stages(const PipelineSetup& setup);

}  // namespace shardscope
