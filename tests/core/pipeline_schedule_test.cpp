// Closed forms of pipeline schedules: what papers say of idle time and of activations kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/refusal.h"
#include "core/pipeline/lowering.h"
#include "core/pipeline/pipeline_schedule.h"
#include "core/pipeline/program.h"
#include "core/pipeline/transfer_order.h"

namespace shardscope {
namespace {

struct ChunkTimes {
  int forward = 1, input = 1, weight = 1;
  int of(ActionKind kind) const {
    if (kind == ActionKind::forward) return forward;
    if (kind == ActionKind::backward_input) return input;
    return kind == ActionKind::backward_weight ? weight : input + weight;
  }
};

struct Played {
  int span = 0;             ///< of all ranks
  std::vector<int> idle;    ///< by rank, within the span
  std::vector<int> stored;  ///< by rank: most chunks that a forward has run of and no backward
};

/// Plays programs whose transfers take no time: a forward or backward begins when its input is
/// there and its rank is free.
class Player {
 public:
  Player(const PipelineSetup& setup, const ChunkTimes& times)
      : programs_(pipeline_programs(setup)), times_(times), stages_(setup.stages()) {}

  Played play() {
    std::vector<std::size_t> next(programs_.size(), 0);
    std::vector<int> free(programs_.size(), 0), busy(free), kept(free);
    Played result{.span = 0, .idle = {}, .stored = std::vector<int>(programs_.size(), 0)};
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
        while (next[rank] < programs_[rank].size()) {
          const PipelineInstruction& one = programs_[rank][next[rank]];
          const bool computes = one.kind == InstructionKind::act && is_compute(one.action.kind);
          if (computes && !is_ready(one.action)) break;
          ++next[rank];
          progress = true;
          if (!computes) continue;
          const int time = times_.of(one.action.kind);
          free[rank] = std::max(free[rank], ready_at(one.action)) + time;
          busy[rank] += time;
          ended_[one.action] = free[rank];
          if (one.action.kind == ActionKind::forward) ++kept[rank];
          if (is_input_backward(one.action.kind)) --kept[rank];
          result.stored[rank] = std::max(result.stored[rank], kept[rank]);
        }
      }
    }
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
      EXPECT_EQ(next[rank], programs_[rank].size()) << "rank " << rank << " hangs";
      result.span = std::max(result.span, free[rank]);
    }
    for (const int time : busy) result.idle.push_back(result.span - time);
    return result;
  }

 private:
  /// What an action needs of another stage or an earlier action; both backwards may have made it.
  std::vector<Action> needs(const Action& action) const {
    const int m = action.micro_batch;
    if (action.kind == ActionKind::forward)
      return action.stage == 0 ? std::vector<Action>{}
                               : std::vector<Action>{{ActionKind::forward, action.stage - 1, m}};
    if (action.kind == ActionKind::backward_weight)
      return {{ActionKind::backward_input, action.stage, m}};
    if (action.stage + 1 == stages_) return {{ActionKind::forward, action.stage, m}};
    return {{ActionKind::full_backward, action.stage + 1, m},
            {ActionKind::backward_input, action.stage + 1, m}};
  }
  bool is_ready(const Action& action) const {
    const std::vector<Action> needed = needs(action);
    return needed.empty() ||
           std::ranges::any_of(needed, [&](const Action& one) { return ended_.contains(one); });
  }
  int ready_at(const Action& action) const {
    int at = 0;
    for (const Action& one : needs(action))
      if (const auto found = ended_.find(one); found != ended_.end())
        at = std::max(at, found->second);
    return at;
  }

  std::vector<PipelineProgram> programs_;
  ChunkTimes times_;
  int stages_;
  std::map<Action, int> ended_;
};

Played played(PipelineScheduleKind kind, int ranks, int stages_per_rank, int micro_batches,
              const ChunkTimes& times) {
  const PipelineSetup setup{.kind = kind,
                            .ranks = ranks,
                            .stages_per_rank = stages_per_rank,
                            .micro_batches = micro_batches,
                            .options = {}};
  return Player(setup, times).play();
}

// (p-1)/(m+p-1) of the time: Huang et al., GPipe (arXiv:1811.06965), 2.3.
TEST(PipelineSchedule, GpipeAnd1F1BIdleForOneForwardAndBackwardAHop) {
  for (const auto kind : {PipelineScheduleKind::gpipe, PipelineScheduleKind::one_f_one_b}) {
    for (const int p : {1, 2, 4, 8}) {
      for (const int m : {p, p + 3, 4 * p}) {
        const Played result = played(kind, p, 1, m, {.forward = 3, .input = 3, .weight = 2});
        for (const int idle : result.idle)
          EXPECT_EQ(idle * (m + p - 1), result.span * (p - 1)) << p << " stages, " << m;
      }
    }
  }
}

// (p-1)/(v m + p-1): Narayanan et al. (arXiv:2104.04473), 2.2.2, m a multiple of p.
TEST(PipelineSchedule, InterleavingDividesTheIdleTimeByTheStagesOfARank) {
  for (const auto kind :
       {PipelineScheduleKind::interleaved_1f1b, PipelineScheduleKind::looped_bfs}) {
    for (const int p : {2, 4, 8}) {
      for (const int v : {1, 2, 4}) {
        for (const int m : {p, 2 * p, 4 * p}) {
          const Played result = played(kind, p, v, m, {.forward = 2, .input = 2, .weight = 2});
          EXPECT_EQ(result.idle[0] * (v * m + p - 1), result.span * (p - 1))
              << name_of(kind) << ' ' << p << ' ' << v << ' ' << m;
        }
      }
    }
  }
}

// Qi et al. (arXiv:2401.10241), table 2: ZB-H1 idles for (p-1)(t_F + t_I - t_W).
TEST(PipelineSchedule, Zb1pFillsIdleTimeWithBackwardsForWeights) {
  for (const int p : {2, 4, 8}) {
    for (const ChunkTimes times : {ChunkTimes{4, 4, 4}, ChunkTimes{4, 5, 3}, ChunkTimes{6, 6, 4}}) {
      const Played result =
          played(PipelineScheduleKind::interleaved_zero_bubble, p, 1, 4 * p, times);
      EXPECT_EQ(result.idle[0], (p - 1) * (times.forward + times.input - times.weight)) << p;
    }
  }
}

// Narayanan et al. (arXiv:2006.09503): a rank keeps as many micro-batches as stages are behind it.
TEST(PipelineSchedule, A1F1BRankKeepsOneMicroBatchForEachStageFromItOn) {
  for (const int m : {4, 6, 16}) {
    const Played result = played(PipelineScheduleKind::one_f_one_b, 4, 1, m, {});
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(result.stored[static_cast<std::size_t>(rank)], std::min(4 - rank, m));
    EXPECT_EQ(played(PipelineScheduleKind::gpipe, 4, 1, m, {}).stored[3], m);
  }
}

// The same work on every rank, and the V shape's ends on one rank: 2 p chunks.
TEST(PipelineSchedule, ZbvKeepsTwoChunksForEachRank) {
  const Played result = played(PipelineScheduleKind::zbv_zero_bubble, 4, 2, 12, {});
  for (const int stored : result.stored) EXPECT_LE(stored, 8);
  EXPECT_EQ(result.stored[0], 8);
}

PipelineSetup setup_of(PipelineScheduleKind kind, int ranks, int stages, int micro_batches) {
  return {.kind = kind,
          .ranks = ranks,
          .stages_per_rank = stages,
          .micro_batches = micro_batches,
          .options = {}};
}

TEST(PipelineSchedule, EverySendIsReceivedOnceAndWaitedForOnce) {
  PipelineSetup setup = setup_of(PipelineScheduleKind::interleaved_1f1b, 4, 2, 8);
  setup.options.max_outstanding_sends = 2;
  setup.options.defer_receives = true;
  std::set<Action> receives, waits;
  std::size_t sends = 0;
  const LoweredSchedule schedule = lowered_schedule(setup);
  for (const ActionOrder& order : schedule.lowered)
    for (const ActionSlot& slot : order)
      for (const Action& action : slot.actions()) {
        if (is_receive(action.kind)) {
          EXPECT_TRUE(receives.insert(action).second);
        }
        if (is_wait_send(action.kind)) {
          EXPECT_TRUE(waits.insert(action).second);
        }
        if (is_send(action.kind)) ++sends;
      }
  EXPECT_EQ(sends, 2u * 7u * 8u);  // forward and backward over seven edges, eight micro-batches
  EXPECT_EQ(receives.size(), sends);
  EXPECT_EQ(waits.size(), sends);
}

/// Ranks whose transfers go one after the other, each when its peer has come to it: false where
/// they wait for each other. The thread that computes issues a transfer when it comes to it.
class OneAtATime {
 public:
  explicit OneAtATime(const PipelineSetup& setup)
      : orders_(transfer_orders(setup)), issued_(orders_.size(), 0), moved_(orders_.size(), 0) {}

  bool end() {
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < orders_.size(); ++rank) {
        while (issue(rank)) progress = true;
        while (move(rank)) progress = true;
      }
    }
    for (std::size_t rank = 0; rank < orders_.size(); ++rank)
      if (issued_[rank] < orders_[rank].size() || transfer_at(rank)) return false;
    return true;
  }

 private:
  bool issue(std::size_t rank) {
    if (issued_[rank] == orders_[rank].size()) return false;
    for (const Action& action : orders_[rank][issued_[rank]].actions())
      for (const ActionSlot& slot : orders_[rank])
        for (const Action& input : slot.actions()) {
          const bool forward =
              input.kind == ActionKind::receive_forward && action.kind == ActionKind::forward;
          const bool backward =
              input.kind == ActionKind::receive_backward && is_input_backward(action.kind);
          const bool needs = (forward || backward) && input.stage == action.stage &&
                             input.micro_batch == action.micro_batch;
          if (needs && !received_.contains(input)) return false;
        }
    ++issued_[rank];
    return true;
  }

  /// The transfer that the rank is at.
  const Action* transfer_at(std::size_t rank) {
    for (std::size_t& at = moved_[rank]; at < orders_[rank].size(); ++at) {
      const Action& action = orders_[rank][at].actions()[0];
      if (is_send(action.kind) || is_receive(action.kind))
        return at < issued_[rank] ? &action : nullptr;
    }
    return nullptr;
  }

  bool move(std::size_t rank) {
    const Action* const send = transfer_at(rank);
    if (send == nullptr || !is_send(send->kind)) return false;
    for (std::size_t peer = 0; peer < orders_.size(); ++peer) {
      const Action* const receive = transfer_at(peer);
      if (peer == rank || receive == nullptr || *receive != receive_of(*send)) continue;
      received_.insert(*receive);
      ++moved_[rank];
      ++moved_[peer];
      return true;
    }
    return false;
  }

  std::vector<ActionOrder> orders_;
  std::vector<std::size_t> issued_, moved_;
  std::set<Action> received_;
};

TEST(PipelineSchedule, TransfersOneAfterTheOtherNeverWaitForEachOther) {
  using enum PipelineScheduleKind;
  for (const auto kind : {gpipe, one_f_one_b, interleaved_1f1b, looped_bfs, interleaved_zero_bubble,
                          zbv_zero_bubble, dualpipev}) {
    for (const int ranks : {2, 3, 4, 5}) {
      for (const int m : {ranks, 2 * ranks, 4 * ranks}) {
        const int stages = has_single_stage(kind) ? 1 : 2;
        const PipelineSetup setup = setup_of(kind, ranks, stages, m);
        if (kind == dualpipev && m < setup.stages()) continue;
        EXPECT_TRUE(OneAtATime(setup).end()) << name_of(kind) << ' ' << ranks << ' ' << m;
      }
    }
  }
}

TEST(PipelineSchedule, RefusesWhatPyTorchRefuses) {
  EXPECT_THROW(pipeline_programs(setup_of(PipelineScheduleKind::one_f_one_b, 4, 1, 3)), Refusal);
  EXPECT_THROW(pipeline_programs(setup_of(PipelineScheduleKind::interleaved_1f1b, 4, 2, 9)),
               Refusal);
  EXPECT_THROW(pipeline_programs(setup_of(PipelineScheduleKind::zbv_zero_bubble, 4, 1, 8)),
               Refusal);
  EXPECT_THROW(pipeline_programs(setup_of(PipelineScheduleKind::dualpipev, 4, 2, 7)), Refusal);
  EXPECT_NO_THROW(pipeline_programs(setup_of(PipelineScheduleKind::gpipe, 4, 1, 1)));
}

TEST(PipelineSchedule, NamesAreReadInAnyCaseAndOthersRefused) {
  EXPECT_EQ(parse_pipeline_schedule("1f1b", "--pipeline-schedule"),
            PipelineScheduleKind::one_f_one_b);
  EXPECT_EQ(parse_pipeline_schedule("DualPipeV", "--pipeline-schedule"),
            PipelineScheduleKind::dualpipev);
  EXPECT_THROW(parse_pipeline_schedule("pipedream", "--pipeline-schedule"), Error);
}

}  // namespace
}  // namespace shardscope
