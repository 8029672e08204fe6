#include "backend/executor/live_bytes_counter.h"

#include <gtest/gtest.h>

#include "core/model/huggingface.h"
#include "core/model/trainable.h"
#include "core/native/native_schedule.h"
#include "core/schedule/schedule_builder.h"
#include "tests/backend/train/tiny_models.h"

namespace shardscope {
namespace {

std::vector<OperationId> steady_operations(const Schedule& schedule) {
  std::vector<OperationId> ids;
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    if (schedule.operations[i].phase != Phase::init) ids.push_back(OperationId::of(i));
  }
  return ids;
}

/// What the counter says while each operation runs.
std::vector<CategoryBytes> counted(const Schedule& schedule) {
  const auto operations = steady_operations(schedule);
  LiveBytesCounter counter(schedule, operations);
  std::vector<CategoryBytes> live;
  for (const OperationId id : operations) {
    counter.issued(id);
    live.push_back(counter.live());
    if (schedule.at(id).stream == Stream::compute) counter.ended(id);
  }
  return live;
}

struct Case {
  std::string_view config;
  ShardingStrategy sharding;
  Mesh mesh;
  Prefetching prefetch;
  Checkpointing checkpointing;
  int micro_batches;
  bool reduce_every_micro_batch;
  Bytes logits;
  Offload offload = Offload::none;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << name_of(c.sharding) << " " << c.mesh.replicate << "x" << c.mesh.shard << " prefetch "
       << text_of(c.prefetch) << " checkpointing " << text_of(c.checkpointing) << " micro "
       << c.micro_batches << " every " << c.reduce_every_micro_batch << " logits "
       << c.logits.count;
}

/// Scratch that differs from kernel to kernel: 4 bytes a row, where a kernel has rows.
Bytes rows_workspace(const Kernel& kernel) {
  return kernel.visit([](const auto& k) -> Bytes {
    if constexpr (requires { k.rows; })
      return {k.rows * 4};
    else
      return {};
  });
}

class LiveBytes : public testing::TestWithParam<Case> {};

void expect_those_of_the_schedule(const NativeTraining& training, int rank, Bytes logits) {
  const Schedule schedule =
      native_schedule(training, rank, {.workspace = rows_workspace, .logits = logits});
  const auto expected = live_bytes(schedule);
  const auto operations = steady_operations(schedule);
  const auto live = counted(schedule);
  ASSERT_GT(operations.size(), 50U);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    ASSERT_EQ(live[i].total(), expected[operations[i].value].total())
        << operations[i].value << " " << schedule.name(schedule.at(operations[i]));
    ASSERT_EQ(live[i], expected[operations[i].value]);
  }
}

void expect_those_of_the_schedule(const Case& c, const std::vector<std::string>& trainable) {
  Model model = model_of_config(JsonValue::parse(c.config, "config.json"));
  freeze_all_but(model, trainable);
  Strategy strategy{.sharding = c.sharding,
                    .mesh = c.mesh,
                    .prefetch = c.prefetch,
                    .checkpointing = c.checkpointing,
                    .offload = c.offload};
  strategy.reduce_every_micro_batch = c.reduce_every_micro_batch;
  const Workload workload{
      .batch = 2, .length = 16, .micro_batches = c.micro_batches, .optimizer = {}, .clip = 1};
  expect_those_of_the_schedule({.model = model, .strategy = strategy, .workload = workload}, 1,
                               c.logits);
}

// Two ways to the same figure: the schedule's lifetimes, and the operands that are handed over.
TEST_P(LiveBytes, CountedFromOperandsAreThoseOfTheSchedule) {
  expect_those_of_the_schedule(GetParam(), {});
}

// GPT-2's biases, or Llama's query projections.
TEST_P(LiveBytes, AreCountedWhereParametersAreFrozenToo) {
  expect_those_of_the_schedule(GetParam(), {"bias$|q_proj"});
}

std::vector<Case> cases() {
  using enum ShardingStrategy;
  std::vector<Case> all;
  for (const std::string_view config : {tiny_gpt2, tiny_llama}) {
    for (const bool on : {true, false}) {
      const Prefetching prefetch = parse_prefetching(on ? "on" : "backward_post=2", "test");
      const Checkpointing again = parse_checkpointing(on ? "none" : "selective+first:1", "test");
      for (const int micro : {1, 3}) {
        for (const bool every : {false, true}) {
          const Bytes logits = on == every ? most_logits : 10_KiB;
          all.push_back({config, no_shard, {1, 4, 1}, prefetch, again, micro, every, logits});
          all.push_back({config, zero1, {1, 1, 4}, prefetch, again, micro, every, logits});
          all.push_back({config, shard_grad_op, {1, 1, 4}, prefetch, again, micro, every, logits});
          all.push_back({config, full_shard, {1, 1, 4}, prefetch, again, micro, every, logits});
          if (!every) {
            all.push_back({config,
                           full_shard,
                           {1, 1, 4},
                           prefetch,
                           again,
                           micro,
                           every,
                           logits,
                           Offload::all});
            all.push_back({config,
                           zero1,
                           {1, 1, 4},
                           prefetch,
                           again,
                           micro,
                           every,
                           logits,
                           Offload::optimizer});
          }
          all.push_back(
              {config, hybrid_shard_zero2, {1, 2, 2}, prefetch, again, micro, every, logits});
          all.push_back({config, hybrid_shard, {1, 2, 2}, prefetch, again, micro, every, logits});
        }
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryStrategy, LiveBytes, testing::ValuesIn(cases()));

struct StagedCase {
  std::string_view config;
  PipelineChoice pipeline;
  ShardingStrategy sharding;
  Mesh mesh;
  std::string_view checkpointing;
  Offload offload = Offload::none;
};

void PrintTo(const StagedCase& c, std::ostream* out) {
  *out << name_of(c.pipeline.schedule) << " " << name_of(c.sharding) << " " << text_of(c.mesh)
       << " checkpointing " << c.checkpointing << " offload " << name_of(c.offload);
}

class LiveBytesOfStages : public testing::TestWithParam<StagedCase> {};

TEST_P(LiveBytesOfStages, CountedFromOperandsAreThoseOfTheSchedule) {
  const StagedCase& c = GetParam();
  for (const std::vector<std::string>& trainable :
       {std::vector<std::string>{}, std::vector<std::string>{"bias$|q_proj"}}) {
    Model model = model_of_config(JsonValue::parse(c.config, "config.json"));
    freeze_all_but(model, trainable);
    const NativeTraining training{
        .model = model,
        .strategy = {.sharding = c.sharding,
                     .mesh = c.mesh,
                     .checkpointing = parse_checkpointing(c.checkpointing, "test"),
                     .offload = c.offload},
        .workload = {.batch = 2, .length = 16, .micro_batches = 4, .optimizer = {}, .clip = 1},
        .pipeline = c.pipeline};
    for (int rank = 0; rank < c.mesh.world(); ++rank)
      expect_those_of_the_schedule(training, rank, 10_KiB);
  }
}

std::vector<StagedCase> staged_cases() {
  using enum ShardingStrategy;
  using enum PipelineScheduleKind;
  struct Inside {
    ShardingStrategy sharding;
    Mesh mesh;
    Offload offload = Offload::none;
  };
  constexpr Inside insides[] = {{no_shard, {2, 1, 1}},
                                {no_shard, {2, 2, 1}},
                                {zero1, {2, 1, 2}},
                                {shard_grad_op, {2, 1, 2}},
                                {full_shard, {2, 1, 2}},
                                {hybrid_shard, {2, 2, 2}},
                                {hybrid_shard_zero2, {2, 2, 2}},
                                {full_shard, {2, 1, 2}, Offload::all},
                                {zero1, {2, 1, 2}, Offload::optimizer}};
  std::vector<StagedCase> all;
  for (const std::string_view config : {tiny_gpt2, tiny_llama})
    for (const auto kind : {gpipe, one_f_one_b, interleaved_1f1b, looped_bfs,
                            interleaved_zero_bubble, zbv_zero_bubble, dualpipev})
      for (const Inside& inside : insides)
        for (const std::string_view checkpointing : {"none", "full", "selective+first:1"}) {
          PipelineChoice pipeline{.schedule = kind};
          if (!has_single_stage(kind))
            pipeline = {.schedule = kind, .stages_per_rank = 2, .layers = {1, 1, 1, 0}};
          all.push_back(
              {config, pipeline, inside.sharding, inside.mesh, checkpointing, inside.offload});
        }
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryPipeline, LiveBytesOfStages, testing::ValuesIn(staged_cases()));

// A collective's buffer is in use until the compute stream has waited for it, not until it was
// issued.
TEST(LiveBytesCounter, KeepsACollectivesBufferUntilTheHostHasWaited) {
  ScheduleBuilder builder{Schedule{}};
  const BufferId kept = builder.add_buffer("kept", MemoryCategory::parameters, 4_B, {},
                                           ScheduleBuilder::Life::persistent);
  const BufferId sent = builder.add_buffer("sent", MemoryCategory::gradients, 100_B);
  const GroupId group = builder.add_group({"world", {0, 1}});
  const Kernel fill = FillZeroKernel{.elements = 1};
  builder.add_kernel({.name = "fill"}, fill, {builder.whole(sent, Access::write)});
  const OperationId reduced = builder.add_collective(
      {.name = "reduce", .kind = OperationKind::all_reduce, .stream = Stream::reduce},
      {group, 25, 25}, {builder.whole(sent, Access::read_write)});
  builder.add_kernel({.name = "other"}, fill, {builder.whole(kept, Access::write)});
  builder.add_wait({.name = "wait", .kind = OperationKind::host}, {reduced});
  builder.add_kernel({.name = "after"}, fill, {builder.whole(kept, Access::write)});
  const Schedule schedule = builder.finish();
  std::vector<std::int64_t> totals;
  for (const CategoryBytes& live : counted(schedule)) totals.push_back(live.total().count);
  // fill, reduce, other, wait (by whose end it is known), after, end of step
  EXPECT_EQ(totals, (std::vector<std::int64_t>{104, 104, 104, 104, 4, 4}));
}

}  // namespace
}  // namespace shardscope
