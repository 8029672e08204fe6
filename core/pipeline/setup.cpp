#include "core/pipeline/setup.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/base/refusal.h"

namespace shardscope {
namespace {

constexpr std::array<std::pair<PipelineScheduleKind, std::string_view>, 7> names{
    {{PipelineScheduleKind::gpipe, "GPipe"},
     {PipelineScheduleKind::one_f_one_b, "1F1B"},
     {PipelineScheduleKind::interleaved_1f1b, "Interleaved1F1B"},
     {PipelineScheduleKind::looped_bfs, "LoopedBFS"},
     {PipelineScheduleKind::interleaved_zero_bubble, "InterleavedZeroBubble"},
     {PipelineScheduleKind::zbv_zero_bubble, "ZBVZeroBubble"},
     {PipelineScheduleKind::dualpipev, "DualPipeV"}}};

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

[[noreturn]] void refuse(std::string what) { throw Refusal("ValueError", std::move(what)); }

/// Interleaved1F1B and InterleavedZeroBubble.
void check_rounds(const PipelineSetup& setup, std::string_view schedule) {
  const Rounds rounds = rounds_of(setup);
  if (setup.micro_batches % rounds.count == 0) return;
  refuse(
      fmt::format("{} requires the number of microbatches to be a multiple of the number of rounds "
                  "({}), but got {}.",
                  schedule, rounds.count, setup.micro_batches));
}

void check_v(const PipelineSetup& setup) {
  if (setup.stages_per_rank != 2) {
    refuse(
        fmt::format("ZBV requires exactly 2 stages per rank, but got {}.", setup.stages_per_rank));
  }
  if (setup.kind != PipelineScheduleKind::dualpipev || setup.micro_batches >= setup.stages())
    return;
  refuse(
      fmt::format("DualPipeV requires at least as many microbatches as stages, but got {} "
                  "microbatches and {} stages.",
                  setup.micro_batches, setup.stages()));
}

void check_lookahead(const std::vector<int>& lookahead, const PipelineSetup& setup) {
  if (lookahead.size() != static_cast<std::size_t>(setup.ranks)) {
    refuse(fmt::format("unshard_lookahead tuple length must equal the pipeline degree ({}), got {}",
                       setup.ranks, lookahead.size()));
  }
  for (std::size_t rank = 0; rank < lookahead.size(); ++rank) {
    if (lookahead[rank] >= 1 && lookahead[rank] <= setup.options.max_active_stages) continue;
    refuse(
        fmt::format("unshard_lookahead[{}] must be an integer within [1, max_active_stages={}], "
                    "got {}",
                    rank, setup.options.max_active_stages, lookahead[rank]));
  }
}

}  // namespace

std::string_view name_of(PipelineScheduleKind kind) {
  return names[static_cast<std::size_t>(kind)].second;
}

PipelineScheduleKind parse_pipeline_schedule(std::string_view text, std::string_view where) {
  std::string choices;
  for (const auto& [kind, name] : names) {
    if (equal_in_any_case(text, name)) return kind;
    choices += fmt::format("{}{}", choices.empty() ? "" : ", ", name);
  }
  throw Error({.where = std::string(where),
               .what = fmt::format("there is no pipeline schedule \"{}\"", text),
               .way_out = "choose one of " + choices});
}

bool has_single_stage(PipelineScheduleKind kind) {
  return kind == PipelineScheduleKind::gpipe || kind == PipelineScheduleKind::one_f_one_b;
}

bool is_v_shaped(PipelineScheduleKind kind) {
  return kind == PipelineScheduleKind::zbv_zero_bubble || kind == PipelineScheduleKind::dualpipev;
}

bool splits_backward(PipelineScheduleKind kind) {
  return kind == PipelineScheduleKind::interleaved_zero_bubble || is_v_shaped(kind);
}

Rounds rounds_of(const PipelineSetup& setup) {
  const int count = std::max(1, setup.micro_batches / setup.ranks);
  return {.count = count, .micro_batches = setup.micro_batches / count};
}

void check_counts(const PipelineSetup& setup) {
  switch (setup.kind) {
    case PipelineScheduleKind::gpipe:
    case PipelineScheduleKind::looped_bfs:
      return;
    case PipelineScheduleKind::one_f_one_b:
      if (setup.micro_batches >= setup.stages()) return;
      refuse(
          fmt::format("Number of microbatches ({}) must be greater than or equal to the number of "
                      "stages ({}).",
                      setup.micro_batches, setup.stages()));
    case PipelineScheduleKind::interleaved_1f1b:
      return check_rounds(setup, "Interleaved 1F1B");
    case PipelineScheduleKind::interleaved_zero_bubble:
      return check_rounds(setup, "Zero bubble");
    case PipelineScheduleKind::zbv_zero_bubble:
    case PipelineScheduleKind::dualpipev:
      return check_v(setup);
  }
}

std::vector<int> resolved_lookahead(const PipelineSetup& setup) {
  const int most = setup.options.max_active_stages;
  if (most < 1) refuse(fmt::format("max_active_stages must be a positive integer, got {}", most));
  if (const auto* given = std::get_if<std::vector<int>>(&setup.options.unshard_lookahead)) {
    check_lookahead(*given, setup);
    return *given;
  }
  std::vector<int> lookahead(static_cast<std::size_t>(setup.ranks), most);
  if (std::get<UnshardLookahead>(setup.options.unshard_lookahead) == UnshardLookahead::full)
    return lookahead;
  for (int rank = 0; rank < setup.ranks; ++rank)
    lookahead[static_cast<std::size_t>(rank)] = std::min(rank + 2, most);
  return lookahead;
}

std::vector<int> rank_of_stages(const PipelineSetup& setup) {
  std::vector<int> ranks;
  for (int stage = 0; stage < setup.stages(); ++stage) {
    const int column = stage % setup.ranks;
    const bool back = is_v_shaped(setup.kind) && (stage / setup.ranks) % 2 == 1;
    ranks.push_back(back ? setup.ranks - 1 - column : column);
  }
  return ranks;
}

}  // namespace shardscope
