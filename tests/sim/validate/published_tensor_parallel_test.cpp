// A rank's part of a model, what its group sums over, and Megatron's update: counted by hand.
#include "sim/megatron/tensor_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/pytorch/runtimes/training/recorded_schedule.h"
#include "sim/kernels/fusion.h"
#include "sim/megatron/update.h"
#include "sim/validate/published_pipeline.h"
#include "sim/validate/published_scenario.h"

namespace shardscope::testing {
namespace {

/// Two layers of 64 columns and 4 heads on two groups of two ranks, 16 tokens a micro-batch.
PublishedRow small_row() {
  PublishedRow row{.source = "a/b",
                   .model = "GPT",
                   .gpu = "A100-80GB-SXM",
                   .strategy = "Megatron-DeepSpeed 3D TP2 DP2 PP1 1F1B",
                   .precision = "fp16",
                   .checkpointing = "full"};
  row.hidden = 64;
  row.layers = 2;
  row.heads = 4;
  row.seq = 16;
  row.gpus = 4;
  row.tensor_parallel = 2;
  row.micro_batch = 1;
  row.global_batch = 2;
  return row;
}

Schedule schedule_of(const DividedTraining& scenario) {
  return eager::recorded_schedule(scenario.played.model, scenario.played.config, scenario.setup);
}

TEST(PublishedTensorParallel, ARankHoldsItsHeadsColumnsAndTokens) {
  const DividedTraining scenario = published_scenario(small_row());
  // A layer: norms 2 x 128, qkv 64 x 96 + 96, out 32 x 64 + 64, up 64 x 128 + 128, down 128 x 64 +
  // 64. Around them: 25,152 of 50,304 tokens and 16 positions of 64, and the last norm.
  constexpr std::int64_t layer = 256 + 6240 + 2112 + 8320 + 8256;
  EXPECT_EQ(scenario.played.model.parameter_elements(), 2 * layer + 25'152 * 64 + 16 * 64 + 128);
  EXPECT_EQ(scenario.world, 2);
  EXPECT_EQ(scenario.tokens_per_step, 32);
}

TEST(PublishedTensorParallel, SumsAreThoseOfMegatron) {
  const DividedTraining scenario = published_scenario(small_row());
  const Schedule plain = schedule_of(scenario);
  const Schedule schedule = with_tensor_parallel(plain, scenario.tensor);
  std::map<std::int64_t, int> sums;  // by bytes
  for (std::size_t i = plain.operations.size(); i < schedule.operations.size(); ++i) {
    const Operation& op = schedule.operations[i];
    EXPECT_EQ(op.kind, OperationKind::all_reduce);
    const Group& group = schedule.groups[schedule.collectives[op.detail].group.value];
    EXPECT_EQ(group.ranks, Ranks::up_to(2));
    ++sums[op.bytes.count];
  }
  // 16 tokens of 64 in 16 bits: the embedding; of each layer two in the forward, two where it runs
  // again, two in the backward; the head's backward. The loss: three of 16 tokens in float32.
  EXPECT_THAT(sums, ::testing::ElementsAre(std::pair{16 * 4, 3}, std::pair{16 * 64 * 2, 14}));
}

/// With sequence parallelism a sum is a reduce-scatter of the whole and a gather of its halves; of
/// the loss a sum of what each rank has.
TEST(PublishedTensorParallel, SumsOfASequenceInPartsAreTwoCollectives) {
  PublishedRow row = small_row();
  row.strategy = "Megatron TP2 DP2 + SP";
  const DividedTraining scenario = published_scenario(row);
  const Schedule plain = schedule_of(scenario);
  const Schedule schedule = with_tensor_parallel(plain, scenario.tensor);
  std::map<OperationKind, int> kinds;
  for (std::size_t i = plain.operations.size(); i < schedule.operations.size(); ++i) {
    const Operation& op = schedule.operations[i];
    ++kinds[op.kind];
    const Collective& collective = schedule.collectives[op.detail];
    const bool gathers = op.kind == OperationKind::all_gather;
    const std::int64_t whole = op.kind == OperationKind::all_reduce ? 16 : 16 * 64;
    EXPECT_EQ(collective.elements_in, gathers ? whole / 2 : whole);
    EXPECT_EQ(collective.elements_out,
              op.kind == OperationKind::reduce_scatter ? whole / 2 : whole);
  }
  EXPECT_THAT(kinds, ::testing::UnorderedElementsAre(std::pair{OperationKind::all_reduce, 3},
                                                     std::pair{OperationKind::reduce_scatter, 14},
                                                     std::pair{OperationKind::all_gather, 14}));
}

/// Four GPUs in groups of two that share sequences of 16 tokens: each has 8 of them.
TEST(PublishedContextParallel, ARankHasItsPartOfASequence) {
  PublishedRow row = small_row();
  row.strategy = "DDP+dist.optimizer TP1 PP1 CP2";
  row.tensor_parallel = 1;
  row.precision = "bf16";
  EXPECT_EQ(why_not_predicted(row), "");
  const DividedTraining scenario = published_scenario(row);
  EXPECT_EQ(scenario.setup.loop.length, 8);
  EXPECT_EQ(scenario.ring, (RingAttention{.ranks = 2}));
  EXPECT_EQ(scenario.world, 4);             // that reduce gradients
  EXPECT_EQ(scenario.tokens_per_step, 32);  // two sequences of 16
  row.strategy = "FSDP2 1 x CP 3";
  EXPECT_EQ(why_not_predicted(row), "context parallelism: 4 GPUs in groups of 3");
}

/// Attention forward and backward of a step: 2 heads of 4 columns, 8 of 16 tokens, in 16 bits.
Schedule attention_twice() {
  Schedule schedule;
  schedule.owners = {"model.layers.0.self_attn"};
  schedule.program.lanes.push_back({.name = "compute", .stream = Stream::compute});
  for (const WorkKind kind : {WorkKind::attention_forward, WorkKind::attention_backward}) {
    DeviceWork work{.kind = kind, .dtype = Dtype::bfloat16, .flops = Flops{100}};
    work.attention = {
        .batch = 1, .heads = 2, .kv_heads = 2, .queries = 8, .keys = 8, .head_dim = 4};
    work.attention.library = AttentionLibrary::flash;
    schedule.works.push_back(work);
    Operation op;
    op.owner = OwnerId::of(0);
    op.work = static_cast<std::uint32_t>(schedule.works.size() - 1);
    schedule.operations.push_back(op);
    schedule.program.actions.push_back({.kind = HostActionKind::launch, .subject = op.work});
  }
  schedule.steps.push_back({.label = "steady", .operations = {0, 2}, .actions = {0, 2}});
  return schedule;
}

TEST(PublishedContextParallel, WhatATracedRingExchangesStandsBehindAttention) {
  const Schedule schedule =
      with_ring_attention(attention_twice(), {.ranks = 2, .distance = 4, .waits = true});
  struct Seen {
    OperationKind kind;
    std::int64_t bytes;
    bool operator==(const Seen&) const = default;
  };
  std::vector<Seen> seen;
  for (const HostAction& action : schedule.program.actions) {
    const Operation& op = schedule.operations[action.subject];
    if (op.owner) continue;  // attention itself
    seen.push_back({op.kind, op.bytes.count});
    if (op.kind == OperationKind::compute) continue;
    EXPECT_EQ(schedule.groups[schedule.collectives[op.detail].group.value].ranks.list(),
              (std::vector{0, 4}));
  }
  // 64 queries, 128 keys and values. Gathered: 2 x 128 x 2 bytes. Forward one part is merged with
  // another, 10 bytes a number. Backward two parts of all three are, and keys' and values' are
  // joined, 8 bytes a number. Each of two messages has 128 x 4 bytes.
  using enum OperationKind;
  EXPECT_EQ(seen, (std::vector<Seen>{{all_gather, 512},
                                     {compute, 640},
                                     {all_gather, 512},
                                     {compute, 2 * (192 * 10 + 128 * 8)},
                                     {send, 512},
                                     {send, 512}}));
  EXPECT_EQ(schedule.works[0].attention.keys, 16);
  EXPECT_EQ(schedule.works[0].flops, Flops{200});
}

TEST(PublishedContextParallel, ARingThatIsNotTracedRunsBehindAttention) {
  const Schedule schedule = with_ring_attention(attention_twice(), {.ranks = 2});
  // 64 queries, 128 keys and values. Forward one part is scaled and another added, 4 and 6 bytes a
  // number; backward one part of all three is added.
  ASSERT_EQ(schedule.operations.size(), 4U);
  EXPECT_EQ(schedule.operations[2].bytes, Bytes{64 * (4 + 6)});
  EXPECT_EQ(schedule.operations[3].bytes, Bytes{192 * 6});
  EXPECT_EQ(schedule.works[1].attention.keys, 16);
}

TEST(PublishedFloat8, IsAsItsStackCasts) {
  PublishedRow row = small_row();
  row.gpu = "H100-80GB-SXM";
  row.tensor_parallel = 1;
  row.strategy = "DDP+dist.optimizer TP1 PP1 CP1";
  row.precision = "FP8-CS";
  row.attention = "TE/cuDNN flash";
  const DividedTraining megatron = published_scenario(row);
  EXPECT_EQ(megatron.float8.casts, Float8Casts::current);
  EXPECT_FALSE(megatron.float8.casts_weights);
  EXPECT_EQ(megatron.kernels.attention, AttentionLibrary::cudnn);
  row.source = "pytorch/torchtitan";
  row.strategy = "FSDP2 full shard";
  row.precision = "float8 rowwise";
  const DividedTraining titan = published_scenario(row);
  EXPECT_EQ(titan.float8.casts, Float8Casts::rowwise);
  EXPECT_FALSE(titan.float8.gathers_casts);
  EXPECT_TRUE(titan.float8.casts_weights);
  row.precision = "NVFP4";
  EXPECT_EQ(why_not_predicted(row), "FP8: precision \"NVFP4\"");
}

TEST(PublishedTensorParallel, OtherGroupsAreSpreadOut) {
  Schedule schedule;
  schedule.groups.push_back({.name = "world", .ranks = Ranks::up_to(3)});
  schedule.steps.push_back({.label = "steady"});
  schedule = with_tensor_parallel(std::move(schedule), {.ranks = 4, .tokens = 1, .hidden = 1});
  EXPECT_THAT(schedule.groups[0].ranks.list(), ::testing::ElementsAre(0, 4, 8));
}

/// A block whose norm reads 800 bytes and whose product reads as many, of one step.
Schedule norm_and_product() {
  Schedule schedule;
  schedule.owners = {"model.layers.0.input_layernorm", "model.layers.0.mlp.down_proj"};
  schedule.works = {{.kind = WorkKind::norm_forward, .bytes = 800_B},
                    {.kind = WorkKind::matmul, .bytes = 800_B}};
  schedule.program.lanes.push_back({.name = "compute", .stream = Stream::compute});
  for (std::uint32_t i = 0; i < 2; ++i) {
    Operation op;
    op.stream = Stream::compute;
    op.phase = Phase::forward;
    op.owner = OwnerId::of(i);
    op.work = i;
    op.bytes = 800_B;
    schedule.operations.push_back(op);
    schedule.program.actions.push_back({.kind = HostActionKind::launch, .lane = 0, .subject = i});
  }
  schedule.steps.push_back({.label = "steady", .operations = {0, 2}, .actions = {0, 2}});
  return schedule;
}

TEST(PublishedTensorParallel, SequenceParallelismDividesNorms) {
  const Schedule schedule = with_divided_sequence(norm_and_product(), 4);
  EXPECT_EQ(schedule.works[schedule.operations[0].work].bytes, 200_B);
  EXPECT_EQ(schedule.operations[0].bytes, 200_B);
  EXPECT_EQ(schedule.works[schedule.operations[1].work].bytes, 800_B);
}

TEST(PublishedTensorParallel, SumsThatOverlapHaveALaneOfTheirOwn) {
  const TensorParallel tensor{.ranks = 4, .tokens = 2, .hidden = 8, .overlaps = true};
  const Schedule schedule = with_tensor_parallel(norm_and_product(), tensor);
  // The product is divided by rows: one sum of 2 x 8 elements behind it.
  ASSERT_EQ(schedule.operations.size(), 3U);
  const HostAction& sum = schedule.program.actions.back();
  EXPECT_EQ(schedule.program.lanes[sum.lane].name, "tensor");
  const HostAction& wait = schedule.program.actions[schedule.program.actions.size() - 2];
  EXPECT_EQ(wait.kind, HostActionKind::wait_event);
  EXPECT_EQ(wait.lane, sum.lane);
  const HostAction& record = schedule.program.actions[schedule.program.actions.size() - 3];
  EXPECT_EQ(record.kind, HostActionKind::record_event);
  EXPECT_EQ(record.lane, 0);
  EXPECT_EQ(record.subject, wait.subject);
}

/// torch.cat of torch.chunk along the tokens of (sequence, token, column): 2 x 8 numbers of 16 bits
/// are read and written before they are reduced in parts, and once more when they are gathered. In
/// float8 the gather moves 8-bit numbers.
TEST(PublishedTensorParallel, TokensThatComeSecondAreCopiedAroundTheirSum) {
  const TensorParallel tensor{
      .ranks = 4, .tokens = 2, .hidden = 8, .divides_sequence = true, .copies_tokens = true};
  const auto copied = [](const Schedule& schedule) {
    std::vector<std::int64_t> bytes;
    for (const HostAction& action : schedule.program.actions) {
      const Operation& op = schedule.operations[action.subject];
      if (op.work != Operation::no_work && schedule.works[op.work].kind == WorkKind::copy)
        bytes.push_back(schedule.works[op.work].bytes.count);
    }
    return bytes;
  };
  const Schedule schedule = with_tensor_parallel(norm_and_product(), tensor);
  std::vector<OperationKind> kinds;
  for (const HostAction& action : schedule.program.actions)
    kinds.push_back(schedule.operations[action.subject].kind);
  using enum OperationKind;
  EXPECT_THAT(kinds, ::testing::ElementsAre(compute, compute, compute, reduce_scatter, all_gather,
                                            compute));
  EXPECT_THAT(copied(schedule), ::testing::ElementsAre(64, 64));
  const Schedule float8 =
      with_float8(schedule, {.casts = Float8Casts::compiled, .gathers_casts = true});
  EXPECT_THAT(copied(float8), ::testing::ElementsAre(64, 32));
  const Schedule rowwise = with_float8(schedule, {.casts = Float8Casts::rowwise});
  EXPECT_THAT(copied(rowwise), ::testing::ElementsAre(64, 64));
  TensorParallel first = tensor;
  first.copies_tokens = false;
  EXPECT_THAT(copied(with_tensor_parallel(norm_and_product(), first)), ::testing::IsEmpty());
}

TEST(PublishedTensorParallel, AsynchronousTensorParallelismCopiesNothing) {
  PublishedRow row = small_row();
  row.source = "pytorch/torchtitan";
  row.strategy = "FSDP2 2 x TP 2 (vanilla TP)";
  EXPECT_TRUE(published_scenario(row).tensor.copies_tokens);
  for (const char* words : {"FSDP2 2 x TP 2 (async TP)", "FSDP2 2 x TP2 AsyncTP"}) {
    row.strategy = words;
    EXPECT_FALSE(published_scenario(row).tensor.copies_tokens);
  }
  row.source = "NVIDIA-NeMo/Megatron-Bridge";
  row.strategy = "DDP+dist.optimizer TP2";
  EXPECT_FALSE(published_scenario(row).tensor.copies_tokens);
}

TEST(PublishedTensorParallel, StacksSayWhetherTheyDivideAndOverlap) {
  PublishedRow row = small_row();
  EXPECT_FALSE(published_scenario(row).tensor.divides_sequence);
  row.strategy = "Megatron TP2 DP2 + SP";
  EXPECT_TRUE(published_scenario(row).tensor.divides_sequence);
  EXPECT_FALSE(published_scenario(row).tensor.overlaps);
  row.strategy = "Megatron TP2 DP2, overlap grad-reduce/tp-comm";
  EXPECT_TRUE(published_scenario(row).tensor.overlaps);
  row.source = "NVIDIA-NeMo/Megatron-Bridge";
  row.strategy = "DDP+dist.optimizer TP2";
  EXPECT_TRUE(published_scenario(row).tensor.divides_sequence);
  EXPECT_TRUE(published_scenario(row).tensor.overlaps);
  row.source = "pytorch/torchtitan";
  row.strategy = "FSDP2 2 x TP 2 (async TP)";
  EXPECT_TRUE(published_scenario(row).tensor.divides_sequence);
  EXPECT_FALSE(published_scenario(row).tensor.overlaps);
}

TEST(MegatronPipeline, WordsSayHowManyStagesARankHas) {
  PublishedRow row = small_row();
  EXPECT_EQ(stages_of_rank(row), 1);
  row.strategy = "Megatron TP8 PP35 interleave 3 + SP";
  EXPECT_EQ(stages_of_rank(row), 3);
  row.strategy = "DDP+dist.optimizer TP8 PP8 CP2 VP4";
  EXPECT_EQ(stages_of_rank(row), 4);
}

/// Llama-3.1-405B: 126 layers, embedding and head on 64 stages.
TEST(MegatronPipeline, EmbeddingAndHeadStandForALayerEachWhereLayersDoNotDivide) {
  PublishedRow row = small_row();
  row.tensor_parallel = 1;
  row.layers = 14;
  row.pipeline_parallel = 4;
  const DividedTraining scenario = published_scenario(row);
  EXPECT_THAT(scenario.pipeline->layers, ::testing::ElementsAre(3, 4, 4, 3));
  row.layers = 13;  // 15 do not divide either
  EXPECT_THAT(published_scenario(row).pipeline->layers, ::testing::ElementsAre(4, 3, 3, 3));
}

/// Names of what a module runs forward.
std::vector<std::string> operators_of(const DividedTraining& scenario, std::string_view module) {
  const Schedule schedule = with_kernels(schedule_of(scenario), scenario.kernels);
  std::vector<std::string> names;
  const Step& steady = schedule.steps.back();
  for (std::uint32_t i = steady.actions.begin; i < steady.actions.end; ++i) {
    const HostAction& action = schedule.program.actions[i];
    if (action.kind != HostActionKind::launch) continue;
    const Operation& op = schedule.operations[action.subject];
    const bool first = op.micro_batch == 0 && op.phase == Phase::forward;
    if (!first || !op.owner || schedule.owners[op.owner.value] != module) continue;
    names.emplace_back(schedule.name(op));
  }
  return names;
}

/// Names of what the first layer's attention runs forward.
std::vector<std::string> attention_of(const DividedTraining& scenario) {
  return operators_of(scenario, "transformer.h.0.attn");
}

/// Attention.forward of torchtitan's model.py: queries and keys become float32, are multiplied as
/// complex numbers and cast back, and keys and values are copied for the heads that share them.
TEST(PublishedTorchtitan, PlaysItsOwnAttention) {
  PublishedRow row = small_row();
  row.source = "pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md";
  row.model = "Llama-3.1-8B";
  row.strategy = "FSDP2 full shard";
  row.gpu = "H100-80GB-SXM";
  row.kv_heads = 2;
  row.ffn = 128;
  row.precision = "bf16";
  row.tensor_parallel = 1;
  row.checkpointing = "none";
  row.attention = "sdpa-flash";
  const std::vector<std::string> eager{"aten._to_copy.default",
                                       "aten._to_copy.default",
                                       "aten.mul.complex",
                                       "aten.mul.complex",
                                       "aten._to_copy.default",
                                       "aten._to_copy.default",
                                       "aten.clone.default",
                                       "aten.clone.default",
                                       "aten._scaled_dot_product_flash_attention.default"};
  EXPECT_EQ(operators_of(published_scenario(row), "model.layers.0.self_attn"), eager);
  row.compile = "yes";
  const DividedTraining compiled = published_scenario(row);
  EXPECT_EQ(compiled.kernels.scope, CompileScope::blocks);
  // One kernel for both casts before, and one for what follows.
  EXPECT_EQ(operators_of(compiled, "model.layers.0.self_attn"),
            (std::vector<std::string>{"aten._to_copy.default", "aten.mul.complex",
                                      "aten.mul.complex", "aten._to_copy.default",
                                      "aten._scaled_dot_product_flash_attention.default"}));
  row.source = "pytorch/torchtitan benchmarks/llama3-8b_h200_202506_trainy-whitefiber.md";
  EXPECT_EQ(published_scenario(row).kernels.scope, CompileScope::blocks_and_loss);
}

/// is_kernel_available of Megatron-LM's fused_softmax.py: heads of all sequences in fours.
TEST(PublishedAttention, MegatronsFusedSoftmaxTakesHeadsInFours) {
  PublishedRow row = small_row();
  row.seq = 256;
  row.global_batch = 4;
  row.micro_batch = 2;  // 4 heads
  EXPECT_TRUE(published_scenario(row).kernels.fuses_attention);
  const auto fused = attention_of(published_scenario(row));
  row.micro_batch = 1;  // 2 heads
  EXPECT_FALSE(published_scenario(row).kernels.fuses_attention);
  const auto apart = attention_of(published_scenario(row));
  // forward_torch_softmax: float(), times the scale, the mask, the softmax, half(). Fused: one, by
  // the name of its first operator.
  EXPECT_THAT(apart,
              ::testing::ElementsAre("aten.bmm.default", "aten._to_copy.default", "aten.mul.Tensor",
                                     "aten.masked_fill_.Scalar", "aten._softmax.default",
                                     "aten._to_copy.default", "aten.native_dropout.default",
                                     "aten.bmm.default", "aten.clone.default"));
  EXPECT_THAT(fused, ::testing::ElementsAre("aten.clone.default", "aten.bmm.default",
                                            "aten.mul.Tensor", "aten.native_dropout.default",
                                            "aten.bmm.default", "aten.clone.default"));
}

TEST(PublishedAttention, MegatronsFusedSoftmaxTakesShortRowsInEights) {
  PublishedRow row = small_row();
  row.global_batch = 4;
  row.micro_batch = 2;  // 4 heads of 16 tokens: too short
  EXPECT_FALSE(published_scenario(row).kernels.fuses_attention);
  row.seq = 64;  // eight rows to a block
  EXPECT_FALSE(published_scenario(row).kernels.fuses_attention);
  row.seq = 132;
  EXPECT_TRUE(published_scenario(row).kernels.fuses_attention);
  row.seq = 8192;
  EXPECT_FALSE(published_scenario(row).kernels.fuses_attention);
}

/// scaled_upper_triang_masked_softmax.h: of 4 x 256 x 256 scores in 16 bits the backward reads the
/// lower half of gradient and result, and writes all; the factor is in the same kernel.
TEST(PublishedAttention, MegatronsFusedSoftmaxReadsScoresBelowTheDiagonal) {
  PublishedRow row = small_row();
  row.seq = 256;
  row.global_batch = 4;
  row.micro_batch = 2;
  const DividedTraining scenario = published_scenario(row);
  const Schedule schedule = with_kernels(schedule_of(scenario), scenario.kernels);
  constexpr std::int64_t scores = 4LL * 256 * 256 * 2;
  int softmaxes = 0;
  const Step& steady = schedule.steps.back();
  for (std::uint32_t i = steady.actions.begin; i < steady.actions.end; ++i) {
    const HostAction& action = schedule.program.actions[i];
    if (action.kind != HostActionKind::launch) continue;
    const Operation& op = schedule.operations[action.subject];
    if (!op.owner || !schedule.owners[op.owner.value].ends_with(".attn")) continue;
    if (op.phase != Phase::backward || op.recomputed) continue;
    EXPECT_NE(schedule.name(op), "aten.mul.Tensor");
    if (schedule.name(op) != "aten._softmax_backward_data.default") continue;
    EXPECT_EQ(op.bytes.count, 2 * scores / 2 + scores);
    ++softmaxes;
  }
  EXPECT_EQ(softmaxes, 2);  // layers
}

TEST(PublishedCheckpointing, MegatronsSelectiveRunsOnlyAttentionsCoreAgain) {
  PublishedRow row = small_row();
  row.tensor_parallel = 1;
  row.strategy = "Megatron DP4";
  row.attention = "Megatron fused softmax";
  row.checkpointing = "selective (attention)";
  const Schedule schedule = schedule_of(published_scenario(row));
  std::map<std::string, int> again;
  const IndexRange steady = schedule.steps.back().operations;
  for (std::uint32_t i = steady.begin; i < steady.end; ++i)
    if (schedule.operations[i].recomputed)
      ++again[std::string(schedule.name(schedule.operations[i]))];
  // Scores of each of the two layers, their softmax; no product of a weight.
  int linear = 0, scores = 0, softmax = 0;
  for (const auto& [name, count] : again) {
    if (name.find("addmm") != std::string::npos || name.starts_with("aten.mm")) linear += count;
    if (name.find("bmm") != std::string::npos) scores += count;
    if (name.find("_softmax") != std::string::npos) softmax += count;
  }
  EXPECT_EQ(linear, 0);
  EXPECT_GE(scores, 2);
  EXPECT_EQ(softmax, 2);
}

TEST(PublishedTensorParallel, WhatDoesNotDivideIsNotPredicted) {
  PublishedRow row = small_row();
  row.heads = 3;
  EXPECT_EQ(why_not_predicted(row), "tensor parallelism: 3 heads on 2 ranks");
  row = small_row();
  row.gpus = 3;
  EXPECT_EQ(why_not_predicted(row), "tensor parallelism: 3 GPUs in groups of 2");
  row = small_row();
  row.tensor_parallel.reset();
  EXPECT_EQ(why_not_predicted(row), "tensor parallelism: tp not stated");
}

/// A terabyte a second, and nothing else.
HardwareProfile plain_device() {
  HardwareProfile profile;
  profile.peak = {1e15};
  profile.memory_bandwidth = {1e12};
  return profile;
}

TEST(PublishedUpdate, ReadsAndWritesFiftyTwoBytesOfAnElement) {
  // Copy 2 + 4, unscale 4 + 4, norm 4, Adam 16 + 12, copy back 4 + 2: 52 GB at 1 TB/s.
  const MegatronUpdate update{.elements = 1'000'000'000, .tensors = 10};
  EXPECT_NEAR(megatron_update_time(update, plain_device()).seconds(), 0.052, 1e-6);
  // A quarter of it where states are sharded over four; nothing is sent within one rank.
  MegatronUpdate sharded = update;
  sharded.shards = 4;
  EXPECT_NEAR(megatron_update_time(sharded, plain_device()).seconds(), 0.013, 1e-6);
}

TEST(PublishedUpdate, ZeroOneOfDeepspeedSumsEverywhere) {
  HardwareProfile profile = plain_device();
  profile.link = Link{.bandwidth = {1e18}, .latency = 0_ns};
  // Half of 52 bytes of an element; copied to a buffer, divided and copied back, 2 + 2 bytes each.
  MegatronUpdate update{.elements = 1'000'000'000,
                        .tensors = 10,
                        .data_ranks = 2,
                        .shards = 2,
                        .sums_everywhere = true};
  EXPECT_NEAR(megatron_update_time(update, profile).seconds(), 0.026 + 0.012, 1e-6);
  // Of two ranks an all-reduce takes as long as two gathers, a reduction to parts as one.
  profile.link = Link{.bandwidth = {1e9}, .latency = 0_ns};
  const double summed = megatron_exchange_time(update, profile).seconds();
  update.sums_everywhere = false;
  EXPECT_NEAR(summed, 1.5 * megatron_exchange_time(update, profile).seconds(), 1e-6);
}

TEST(PublishedUpdate, LaunchesACopyForEachTensor) {
  HardwareProfile profile = plain_device();
  profile.host = HostCosts{.operation = 10_us, .view = 1_us};
  // 1,000 tensors of 1,000 elements: the copies take 6 us on the device and 10 ms to launch.
  const MegatronUpdate update{.elements = 1'000'000, .tensors = 1000};
  EXPECT_NEAR(megatron_update_time(update, profile).seconds(), 0.010 + 46e-6, 1e-6);
}

}  // namespace
}  // namespace shardscope::testing
