// Ends of pipelines' ranks by what follows what, beside those of the event engine.
#include "sim/engine/pipeline_order.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace shardscope {
namespace {

PipelineSetup setup_of(PipelineScheduleKind kind, int ranks, int stages, int micro_batches) {
  return {.kind = kind,
          .ranks = ranks,
          .stages_per_rank = stages,
          .micro_batches = micro_batches,
          .options = {}};
}

// Each schedule, with chunks and transfers of any length: the path through what follows what is as
// long as the engine says.
TEST(PipelineOrder, EndsWhenTheTimelineEnds) {
  std::mt19937 random(17);
  const auto any = [&](int most) { return Duration{static_cast<std::int64_t>(random() % most)}; };
  for (const auto& [kind, stages_per_rank] : {std::pair(PipelineScheduleKind::gpipe, 1),
                                              {PipelineScheduleKind::one_f_one_b, 1},
                                              {PipelineScheduleKind::looped_bfs, 3},
                                              {PipelineScheduleKind::interleaved_1f1b, 2},
                                              {PipelineScheduleKind::interleaved_zero_bubble, 2},
                                              {PipelineScheduleKind::interleaved_zero_bubble, 1},
                                              {PipelineScheduleKind::zbv_zero_bubble, 2},
                                              {PipelineScheduleKind::dualpipev, 2}})
    for (const int micro_batches : {8, 16}) {
      const PipelineSetup setup = setup_of(kind, 4, stages_per_rank, micro_batches);
      const std::vector<PipelineProgram> programs = pipeline_programs(setup);
      const PipelineOrder order(programs);
      for (int turn = 0; turn < 10; ++turn) {
        PipelineTimes times{.chunks = {}, .transfer = {}, .one_channel = true};
        for (int stage = 0; stage < setup.stages(); ++stage)
          times.chunks.push_back({any(10'000), any(15'000), any(9'000)});
        const Duration transfer = any(turn < 5 ? 100 : 20'000);
        times.transfer = [=](int, int) { return transfer; };
        EXPECT_EQ(order.ends(times.chunks, transfer), pipeline_ends(programs, times))
            << name_of(kind) << " " << micro_batches;
      }
    }
}

TEST(PipelineOrder, RefusesRanksThatWaitForEachOther) {
  const auto post = [](const Action& action, int peer) {
    return PipelineInstruction{
        .kind = InstructionKind::post, .action = {}, .transfers = {{action, peer}}};
  };
  EXPECT_THROW(PipelineOrder({{post({ActionKind::receive_backward, 0, 0}, 1)},
                              {post({ActionKind::receive_forward, 1, 0}, 0)}}),
               Error);
}

}  // namespace
}  // namespace shardscope
