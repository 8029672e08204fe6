// The native runtime's schedule: what is issued in which order, what lives when, and that nothing
// can overtake its data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/trainable.h"
#include "core/native/native_abilities.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "core/native/units.h"
#include "core/schedule/schedule.h"
#include "tests/core/small_models.h"

namespace shardscope {
namespace {

using ::testing::ElementsAre;

constexpr Prefetching no_prefetch{.forward = 0, .backward = 0};

struct Setting {
  ShardingStrategy sharding = ShardingStrategy::full_shard;
  int world = 2;
  Mesh mesh = {};
  Wrap wrap = {};
  Prefetching prefetch = {};
  Checkpointing checkpointing = {};
  int micro_batches = 1;
  bool reduce_every_micro_batch = false;
  int rank = 0;
  std::vector<std::string> trainable = {};
};

Schedule schedule_of(Model model, const Setting& setting, const Target& target = {}) {
  freeze_all_but(model, setting.trainable);
  const Strategy strategy = resolved({.sharding = setting.sharding,
                                      .mesh = setting.mesh,
                                      .wrap = setting.wrap,
                                      .prefetch = setting.prefetch,
                                      .checkpointing = setting.checkpointing,
                                      .reduce_every_micro_batch = setting.reduce_every_micro_batch},
                                     setting.world, "test");
  return native_schedule(
      model, strategy,
      {.batch = 2, .length = 4, .micro_batches = setting.micro_batches, .clip = 1.0}, setting.rank,
      target);
}

std::vector<std::string> collectives_of(const Schedule& schedule) {
  std::vector<std::string> names;
  for (const Operation& op : schedule.operations)
    if (is_collective(op.kind)) names.emplace_back(schedule.name(op));
  return names;
}

std::vector<std::string> names_where(const Schedule& schedule, const std::string& part) {
  std::vector<std::string> names;
  for (const Operation& op : schedule.operations)
    if (std::string(schedule.name(op)).find(part) != std::string::npos)
      names.emplace_back(schedule.name(op));
  return names;
}

std::size_t index_of(const Schedule& schedule, const std::string& name) {
  for (std::size_t i = 0; i < schedule.operations.size(); ++i)
    if (schedule.name(schedule.operations[i]) == name) return i;
  ADD_FAILURE() << "no operation " << name;
  return 0;
}

TEST(NativeSchedule, FullShardGathersAheadAndKeepsTheLastUnit) {
  // Three blocks. Forward gathers the root, h.0 and, ahead of each block, the next. The last block
  // stays for its backward; the others are gathered again, each ahead of the backward before it;
  // reductions follow in backward order, root last.
  EXPECT_THAT(
      collectives_of(schedule_of(testing::small_gpt2(3), {})),
      ElementsAre("all_gather:root", "all_gather:transformer.h.0", "all_gather:transformer.h.1",
                  "all_gather:transformer.h.2", "all_gather:transformer.h.1",
                  "reduce_scatter:transformer.h.2", "all_gather:transformer.h.0",
                  "reduce_scatter:transformer.h.1", "reduce_scatter:transformer.h.0",
                  "reduce_scatter:root", "all_reduce:loss", "all_gather:gradient_norm_pieces"));
}

TEST(NativeSchedule, WithoutPrefetchAUnitIsGatheredWhenItIsNeeded) {
  const Schedule schedule = schedule_of(testing::small_gpt2(2), {.prefetch = no_prefetch});
  // h.1 is gathered only after h.0's last forward operator was issued.
  EXPECT_GT(index_of(schedule, "all_gather:transformer.h.1"),
            index_of(schedule, "transformer.h.0.mlp.c_proj linear_forward"));
  const Schedule ahead = schedule_of(testing::small_gpt2(2), {.prefetch = {}});
  EXPECT_LT(index_of(ahead, "all_gather:transformer.h.1"),
            index_of(ahead, "transformer.h.0.ln_1 norm_forward"));
}

TEST(NativeSchedule, NoShardOnlyReduces) {
  EXPECT_THAT(
      collectives_of(schedule_of(testing::small_gpt2(2), {.sharding = ShardingStrategy::no_shard})),
      ElementsAre("all_reduce:transformer.h.1", "all_reduce:transformer.h.0", "all_reduce:root",
                  "all_reduce:loss"));
}

TEST(NativeSchedule, Zero1ScattersGradientsAndGathersWhatWasUpdated) {
  EXPECT_THAT(
      collectives_of(schedule_of(testing::small_gpt2(1), {.sharding = ShardingStrategy::zero1})),
      ElementsAre("reduce_scatter:transformer.h.0", "reduce_scatter:root", "all_reduce:loss",
                  "all_gather:gradient_norm_pieces", "all_gather:root",
                  "all_gather:transformer.h.0"));
}

TEST(NativeSchedule, HybridSumsShardsOverReplicas) {
  const Schedule schedule =
      schedule_of(testing::small_gpt2(1), {.sharding = ShardingStrategy::hybrid_shard,
                                           .world = 4,
                                           .mesh = {.replicate = 2, .shard = 2},
                                           .rank = 3});
  // Rank 3 is shard 1 of replica 1: it shards with rank 2 and replicates rank 1.
  std::map<std::string, std::vector<int>> groups;
  for (const Group& group : schedule.groups) groups[group.name] = group.ranks.list();
  EXPECT_THAT(groups["shard"], ElementsAre(2, 3));
  EXPECT_THAT(groups["replicate"], ElementsAre(1, 3));
  EXPECT_THAT(groups["world"], ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(names_where(schedule, "_re"),  // all_reduce only
              ElementsAre("all_reduce:transformer.h.0", "all_reduce:root", "all_reduce:loss"));
}

TEST(NativeSchedule, OneRankNeedsNoCollective) {
  for (ShardingStrategy sharding : {ShardingStrategy::no_shard, ShardingStrategy::full_shard})
    EXPECT_THAT(
        collectives_of(schedule_of(testing::small_llama(2), {.sharding = sharding, .world = 1})),
        ElementsAre());
}

TEST(NativeSchedule, UnitsArePaddedToPiecesOfEveryShard) {
  // Llama block, by hand, each parameter rounded up to 256: 9 parameters of at most 96 elements = 9
  // * 256 = 2304 = unpadded; a multiple of 256 * 4 ranks: 3072; a shard of 4: 768. Padding: all in
  // the last shard (3072 - 2304 = 768).
  const Schedule schedule = schedule_of(testing::small_llama(1), {.world = 4});
  ASSERT_EQ(schedule.units.size(), 2u);
  const Unit& block = schedule.units[1];
  EXPECT_EQ(block.name, "model.layers.0");
  EXPECT_EQ(block.elements, 496);
  EXPECT_EQ(block.unpadded_elements, 2304);
  EXPECT_EQ(block.padded_elements, 3072);
  EXPECT_EQ(block.shard_elements, 768);
  EXPECT_THAT(block.padding_elements_by_rank, ElementsAre(0, 0, 0, 768));
}

TEST(NativeSchedule, WrapBySizeJoinsNeighbours) {
  // Blocks of 872 elements: two reach 1000, so units of two, and the fifth alone.
  const Schedule schedule = schedule_of(
      testing::small_gpt2(5), {.wrap = {.policy = WrapPolicy::size, .min_elements = 1000}});
  std::vector<std::string> names;
  for (const Unit& unit : schedule.units) names.push_back(unit.name);
  EXPECT_THAT(names, ElementsAre("", "transformer.h.0..transformer.h.1",
                                 "transformer.h.2..transformer.h.3", "transformer.h.4"));
}

TEST(NativeSchedule, WrapByHandJoinsBlocksThatAreNoNeighbours) {
  const Wrap by_hand{.policy = WrapPolicy::by_hand, .blocks = {{1, 2}, {0, 3}}};
  const Schedule schedule = schedule_of(testing::small_gpt2(5), {.wrap = by_hand});
  std::vector<std::string> names;
  for (const Unit& unit : schedule.units) names.push_back(unit.name);
  // Block 4 is in none of them: the root's.
  EXPECT_THAT(names, ElementsAre("", "transformer.h.0+transformer.h.3",
                                 "transformer.h.1..transformer.h.2"));
  EXPECT_EQ(schedule.units[1].elements, 2 * 872);
  // Released behind block 0 and gathered again for block 3; reduced behind block 0's backward.
  EXPECT_EQ(names_where(schedule, "all_gather:transformer.h.0+transformer.h.3").size(), 3u);
  EXPECT_EQ(names_where(schedule, "reduce_scatter:transformer.h.0+transformer.h.3").size(), 1u);
  EXPECT_GT(index_of(schedule, "reduce_scatter:transformer.h.0+transformer.h.3"),
            index_of(schedule, "reduce_scatter:transformer.h.1..transformer.h.2"));
  EXPECT_THROW(schedule_of(testing::small_gpt2(3), {.wrap = by_hand}), Error);
  EXPECT_THROW(schedule_of(testing::small_gpt2(5), {.mesh = {.pipeline = 2}, .wrap = by_hand}),
               Error);
}

TEST(NativeSchedule, HybridZero2KeepsParametersWholeInEveryNode) {
  const Schedule schedule =
      schedule_of(testing::small_gpt2(1), {.sharding = ShardingStrategy::hybrid_shard_zero2,
                                           .world = 4,
                                           .mesh = {.replicate = 2, .shard = 2}});
  EXPECT_THAT(collectives_of(schedule),
              ElementsAre("reduce_scatter:transformer.h.0", "all_reduce:transformer.h.0",
                          "reduce_scatter:root", "all_reduce:root", "all_reduce:loss",
                          "all_gather:gradient_norm_pieces", "all_gather:root",
                          "all_gather:transformer.h.0"));
}

TEST(NativeSchedule, MatrixProductFlopsAreSixPerParameterAndToken) {
  // GPT-2, 2 blocks: products of 12 C^2 = 768 elements a block and the head's 128: (2 * 768 + 128)
  // * 8 tokens * 6 flops; residual and bias additions come on top and are left out here.
  const Schedule schedule = schedule_of(testing::small_gpt2(2), {.world = 1});
  std::int64_t flops = 0;
  for (const Operation& op : schedule.operations) {
    if (op.kind != OperationKind::compute) continue;
    schedule.kernels[op.detail].visit([&]<class K>(const K& k) {
      if constexpr (is_linear(K::kind)) flops += 2 * k.rows * k.in * k.out;
    });
  }
  EXPECT_EQ(flops, (2 * 768 + 128) * 8 * 6);
}

TEST(NativeSchedule, ATiedEmbeddingAddsToTheHeadsGradientAndPositionsStartFromZero) {
  const Schedule schedule = schedule_of(testing::small_gpt2(1), {.world = 1});
  const Operation& head = schedule.operations[index_of(schedule, "lm_head linear_backward_weight")];
  EXPECT_FALSE(schedule.kernels[head.detail].get<LinearBackwardWeightKernel>().accumulate);
  const std::size_t embedding = index_of(schedule, "transformer.wte embedding_backward");
  const Kernel& kernel = schedule.kernels[schedule.operations[embedding].detail];
  EXPECT_TRUE(kernel.get<EmbeddingBackwardKernel>().accumulate);
  EXPECT_LT(index_of(schedule, "transformer.wpe.weight clear gradient"), embedding);
}

TEST(NativeSchedule, LaterMicroBatchesAddToGradientsAndReduceOnce) {
  const Schedule schedule = schedule_of(testing::small_gpt2(1), {.micro_batches = 2});
  std::vector<bool> accumulate;
  for (const Operation& op : schedule.operations)
    if (schedule.name(op) == "transformer.h.0.mlp.c_fc linear_backward_weight")
      accumulate.push_back(
          schedule.kernels[op.detail].get<LinearBackwardWeightKernel>().accumulate);
  EXPECT_THAT(accumulate, ElementsAre(false, true));
  EXPECT_EQ(names_where(schedule, "reduce_scatter:transformer.h.0").size(), 1u);
}

TEST(NativeSchedule, ReducingEveryMicroBatchAddsShards) {
  const Schedule schedule =
      schedule_of(testing::small_gpt2(1), {.micro_batches = 3, .reduce_every_micro_batch = true});
  EXPECT_EQ(names_where(schedule, "reduce_scatter:transformer.h.0").size(), 3u);
  EXPECT_EQ(names_where(schedule, "add:transformer.h.0").size(), 2u);
}

TEST(NativeSchedule, CheckpointingKeepsOnlyBlockInputs) {
  const auto activations_at_loss = [](Checkpointing checkpointing) {
    const Schedule schedule =
        schedule_of(testing::small_gpt2(2), {.world = 1, .checkpointing = checkpointing});
    return live_bytes(
        schedule)[index_of(schedule, "loss cross_entropy")][MemoryCategory::activations];
  };
  // R 8, C 8, float32. At the loss live with checkpointing: embedding (input of h.0) and h.0's
  // output (input of h.1), h.1's output (input of the final norm), its output, each 8*8*4 = 256;
  // mean and rstd 32 each; logits 8*16*4 = 512.
  EXPECT_EQ(activations_at_loss(full_checkpointing).count, 4 * 256 + 2 * 32 + 512);
  // Without, each block adds: two norms' outputs 512 and statistics 128, qkv 768, attention 256 and
  // lse 8*2*4 = 64, the middle residual 256, c_fc's output and gelu 2 * 8*32*4 = 2048: 4032 a
  // block.
  EXPECT_EQ(activations_at_loss({}).count, 4 * 256 + 2 * 32 + 512 + 2 * 4032);
  // Every second block and the first block are both h.0 alone.
  for (const Checkpointing one : {Checkpointing{.every = 2}, Checkpointing{.first = 1}})
    EXPECT_EQ(activations_at_loss(one).count, 4 * 256 + 2 * 32 + 512 + 4032);
  // What products and attention return stays: norms (512 + 128) and the gelu (1024) run again.
  constexpr std::int64_t selective = 4032 - 512 - 128 - 1024;
  EXPECT_EQ(activations_at_loss({.selective = true}).count, 4 * 256 + 2 * 32 + 512 + 2 * selective);
  EXPECT_EQ(activations_at_loss({.first = 1, .selective = true}).count,
            4 * 256 + 2 * 32 + 512 + selective);
}

TEST(NativeSchedule, AMemoryBudgetTakesTheLeastRecomputationThatFits) {
  const Model model = testing::small_gpt2(4);
  const auto schedule_within = [&](const Checkpointing& checkpointing, Bytes budget) {
    return native_schedule({.model = model,
                            .strategy = resolved({.checkpointing = checkpointing}, 1, "test"),
                            .workload = {.batch = 200, .length = 4},
                            .memory_budget = budget},
                           0);
  };
  const auto arena_of = [&](const Checkpointing& checkpointing) {
    return arena_layout(schedule_within(checkpointing, {})).size;
  };
  const auto chosen = [&](Bytes budget) {
    return schedule_within({}, budget).strategy.checkpointing;
  };
  const std::vector<Checkpointing> from_least{{},
                                              {.selective = true},
                                              {.first = 1, .selective = true},
                                              {.first = 2, .selective = true},
                                              {.first = 3, .selective = true}};
  for (std::size_t i = 0; i < from_least.size(); ++i) {
    const Bytes needed = arena_of(from_least[i]);
    EXPECT_EQ(chosen(needed), from_least[i]);
    EXPECT_TRUE(i == 0 || arena_of(from_least[i - 1]) > needed);
  }
  // To run the last block again, too, frees nothing: its backward comes first.
  EXPECT_EQ(arena_of(full_checkpointing), arena_of(from_least.back()));
  EXPECT_THROW(chosen(arena_of(full_checkpointing) - 1_B), Error);
}

// By hand: groups of GPT-2's block, whose weights of norms and biases have one dimension. A rank
// whose shard holds nothing of a group issues its kernel all the same.
TEST(NativeSchedule, ParameterGroupsAreUpdatedByKernelsOfTheirOwn) {
  const Optimizer optimizer{.weight_decay = 0.1,
                            .groups = {{.pattern = "ln_", .rate = 0.5, .weight_decay = 0.3},
                                       {.pattern = "ln_1|mlp", .rate = 2}}};
  const Model model = testing::small_gpt2(1);
  std::vector<std::vector<std::string>> names_of_rank;
  std::map<std::string, std::int64_t> elements;
  for (int rank = 0; rank < 3; ++rank) {
    const Schedule schedule = native_schedule(
        model, resolved({}, 3, "test"), {.batch = 1, .length = 4, .optimizer = optimizer}, rank);
    std::vector<std::string>& names = names_of_rank.emplace_back();
    for (const Operation& op : schedule.operations) {
      if (op.kind != OperationKind::optimizer) continue;
      names.emplace_back(schedule.name(op));
      const auto& kernel = schedule.kernels[op.detail].get<AdamWKernel>();
      elements[names.back()] += kernel.elements;
      const bool is_first = names.back().ends_with("(group 0)");
      EXPECT_EQ(kernel.rate, is_first ? 0.5 : names.back().ends_with("(group 1)") ? 2 : 1);
      EXPECT_EQ(kernel.weight_decay, is_first ? 0.3 : 0.1);
      for (const Slice& slice : schedule.slices_of(op))
        EXPECT_EQ(slice.decay,
                  is_first || model.parameters[slice.parameter.value].shape.size() >= 2);
    }
  }
  EXPECT_EQ(names_of_rank[1], names_of_rank[0]);
  EXPECT_EQ(names_of_rank[2], names_of_rank[0]);
  // C 8: ln_1 and ln_2 2 x 8 each; mlp 8 x 32 + 32 + 32 x 8 + 8; the rest is attention's.
  EXPECT_EQ(elements["adamw:transformer.h.0 (group 0)"], 2 * 2 * 8);
  EXPECT_EQ(elements["adamw:transformer.h.0 (group 1)"], 2 * 8 * 32 + 32 + 8);
  EXPECT_EQ(elements["adamw:transformer.h.0"], 872 - 4 * 8 - (2 * 8 * 32 + 32 + 8));
  EXPECT_EQ(elements["adamw:root (group 0)"], 2 * 8);  // ln_f
}

/// Kept bytes by where they lie, of units without the two scalars of clipping.
struct Kept {
  std::int64_t device = 0, host = 0;
};
Kept kept_of(const Schedule& schedule) {
  Kept kept;
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.allocated_by || !buffer.unit) continue;
    (buffer.on_host ? kept.host : kept.device) += buffer.bytes.count;
  }
  return kept;
}

TEST(NativeSchedule, OffloadMovesStatesAndParametersToTheHost) {
  const auto with = [](Offload offload, ShardingStrategy sharding, Precision precision) {
    const Strategy strategy =
        resolved({.sharding = sharding, .offload = offload, .precision = precision}, 2, "test");
    return native_schedule(testing::small_gpt2(2), strategy, {.batch = 2, .length = 4}, 0);
  };
  using enum ShardingStrategy;
  const Schedule plain = with(Offload::none, full_shard, Precision::bf16_mixed);
  std::int64_t shard = 0;
  for (const Unit& unit : plain.units) shard += unit.shard_elements;
  // On the device 2 bytes of parameters and 12 of master and states; gradients come and go.
  EXPECT_EQ(kept_of(plain).device, 14 * shard);
  EXPECT_EQ(kept_of(plain).host, 0);
  // On the host 12, and 4 of gradients and 2 of parameters on their way.
  const Schedule optimizer = with(Offload::optimizer, full_shard, Precision::bf16_mixed);
  EXPECT_EQ(kept_of(optimizer).device, 2 * shard);
  EXPECT_EQ(kept_of(optimizer).host, (12 + 4 + 2) * shard);
  const Schedule all = with(Offload::all, full_shard, Precision::bf16_mixed);
  EXPECT_EQ(kept_of(all).device, 0);
  EXPECT_EQ(kept_of(all).host, (2 + 12 + 4) * shard);
  // In fp32 the states need a copy of the parameters beside them, unless these are there, too.
  EXPECT_EQ(kept_of(with(Offload::optimizer, full_shard, Precision::fp32)).host,
            (4 + 8 + 4) * shard);
  EXPECT_EQ(kept_of(with(Offload::all, full_shard, Precision::fp32)).host, (4 + 8 + 4) * shard);
  // Every unit's gradient once to the host, and behind its update its parameters once back.
  EXPECT_EQ(names_where(optimizer, "copy_to_host:transformer.h.").size(), 2u);
  EXPECT_EQ(names_where(optimizer, "copy_to_device:").size(), 3u);
  // Gathers read what was copied: twice a block, once the root.
  EXPECT_EQ(names_where(all, "copy_to_device:").size(),
            names_where(all, "all_gather:t").size() + names_where(all, "all_gather:r").size());
  EXPECT_LT(arena_layout(all).size, arena_layout(optimizer).size);
  EXPECT_THROW(with(Offload::all, zero1, Precision::fp32), Error);
}

TEST(NativeSchedule, JoinsGelusWhereTheDeviceWantsIt) {
  const Target joining{.fusions = {.linear_gelu = true}};
  const Schedule joined = schedule_of(testing::small_gpt2(1), {.world = 1}, joining);
  const Schedule apart = schedule_of(testing::small_gpt2(1), {.world = 1});
  EXPECT_TRUE(names_where(joined, "gelu").empty());
  EXPECT_EQ(names_where(apart, "gelu").size(), 2u);
  const auto bytes_of_mlp = [](const Schedule& schedule) {
    Bytes sum;
    for (const Operation& op : schedule.operations)
      if (std::string(schedule.name(op)).find(".mlp") != std::string::npos) sum += op.bytes;
    return sum;
  };
  // Of R F elements (8 * 32 * 4 = 1024 bytes): y is written beside h instead of h read again, and
  // dh is written once instead of dy, read and written again.
  EXPECT_EQ((bytes_of_mlp(apart) - bytes_of_mlp(joined)).count, 3 * 1024);
  EXPECT_EQ(live_bytes(joined).size(), live_bytes(apart).size() - 2);
  const auto peak = [](const Schedule& schedule) {
    Bytes most;
    for (const CategoryBytes& live : live_bytes(schedule)) most = std::max(most, live.total());
    return most;
  };
  EXPECT_EQ(peak(joined), peak(apart));
  // SwiGLU is no gelu.
  EXPECT_EQ(schedule_of(testing::small_llama(1), {}, joining).operations.size(),
            schedule_of(testing::small_llama(1), {}).operations.size());
}

TEST(NativeSchedule, FrozenParametersGetNoGradientOrState) {
  Model model = testing::small_llama(2);
  for (Parameter& p : model.parameters) p.trainable = p.name.find("layers.1") != std::string::npos;
  const Schedule schedule = schedule_of(model, {});
  EXPECT_TRUE(names_where(schedule, "reduce_scatter:root").empty());
  EXPECT_TRUE(names_where(schedule, "adamw:model.layers.0").empty());
  EXPECT_EQ(names_where(schedule, "adamw:model.layers.1").size(), 1u);
  // Nothing below the trainable block needs a backward.
  EXPECT_TRUE(names_where(schedule, "layers.0.mlp.down_proj linear_backward").empty());
}

TEST(NativeSchedule, SaysWhatCannotBe) {
  EXPECT_THROW(
      schedule_of(testing::small_gpt2(1), {.sharding = ShardingStrategy::hybrid_shard, .world = 2}),
      Error);
  EXPECT_THROW(schedule_of(testing::small_gpt2(1), {.world = 0}), Error);
  EXPECT_THROW(schedule_of(testing::small_gpt2(1), {.mesh = {.shard = 3}}), Error);
  Model no_decoder = testing::small_gpt2(1);
  no_decoder.decoder.reset();
  EXPECT_THROW(schedule_of(no_decoder, {}), Error);
}

// ---- properties over all settings

std::vector<Setting> all_settings(const std::vector<std::string>& trainable) {
  std::vector<Setting> settings;
  for (ShardingStrategy sharding : native_abilities().strategies)
    for (int world : {1, 2, 3, 4, 6})
      for (int micro_batches : {1, 2})
        for (const Prefetching& prefetch :
             {Prefetching{}, no_prefetch,
              Prefetching{.forward = 0, .backward = 2, .backward_post = true},
              Prefetching{.forward = 3, .backward = 3, .limit = 2}})
          for (const Checkpointing checkpointing : {Checkpointing{}, full_checkpointing,
                                                    Checkpointing{.first = 1, .selective = true}}) {
            Setting s{.sharding = sharding,
                      .world = world,
                      .prefetch = prefetch,
                      .checkpointing = checkpointing,
                      .micro_batches = micro_batches,
                      .rank = world - 1,
                      .trainable = trainable};
            if (is_hybrid(sharding)) {
              if (world < 4) continue;
              s.mesh = {.replicate = 2, .shard = world / 2};
            }
            settings.push_back(s);
            const bool shards_gradients =
                sharding != ShardingStrategy::no_shard && sharding != ShardingStrategy::zero1;
            if (micro_batches > 1 && shards_gradients) {
              s.reduce_every_micro_batch = true;
              settings.push_back(s);
            }
          }
  return settings;
}

/// Of the model trained as a whole, and of its attention only.
std::vector<Setting> all_settings() {
  std::vector<Setting> settings = all_settings({});
  std::ranges::move(all_settings({"attn"}), std::back_inserter(settings));
  return settings;
}

const Target some_workspace{.workspace = [](const Kernel& kernel) {
  return kernel.kind() == KernelKind::attention_backward ? 192_B : 0_B;
}};

/// happens_before[i] holds the operations that have ended when i starts, from stream order and
/// `after` alone.
std::vector<std::vector<bool>> happens_before(const Schedule& schedule) {
  const std::size_t n = schedule.operations.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
  std::map<Stream, std::size_t> last;
  for (std::size_t i = 0; i < n; ++i) {
    const Operation& op = schedule.operations[i];
    const auto add = [&](std::size_t j) {
      before[i][j] = true;
      for (std::size_t k = 0; k < j; ++k)
        if (before[j][k]) before[i][k] = true;
    };
    if (last.contains(op.stream)) add(last[op.stream]);
    for (OperationId id : schedule.after_of(op)) add(id.value);
    last[op.stream] = i;
  }
  return before;
}

TEST(NativeScheduleProperty, ConflictingUsesOfABufferAreOrdered) {
  for (const Setting& setting : all_settings()) {
    const Schedule schedule = schedule_of(testing::small_gpt2(2), setting, some_workspace);
    const auto before = happens_before(schedule);
    for (std::size_t i = 0; i < schedule.operations.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        for (const Operand& a : schedule.operands_of(schedule.operations[i]))
          for (const Operand& b : schedule.operands_of(schedule.operations[j])) {
            if (!a.buffer || a.buffer != b.buffer ||
                (a.access == Access::read && b.access == Access::read))
              continue;
            ASSERT_TRUE(before[i][j]) << schedule.name(schedule.operations[j]) << " | "
                                      << schedule.name(schedule.operations[i]);
          }
  }
}

TEST(NativeScheduleProperty, MemoryIsUsedAgainOnlyAfterItsLastUse) {
  for (const Setting& setting : all_settings()) {
    const Schedule schedule = schedule_of(testing::small_llama(2), setting, some_workspace);
    const auto before = happens_before(schedule);
    const ArenaLayout layout = arena_layout(schedule);
    std::vector<std::vector<std::size_t>> uses(schedule.buffers.size());
    for (std::size_t i = 0; i < schedule.operations.size(); ++i)
      for (const Operand& operand : schedule.operands_of(schedule.operations[i]))
        if (operand.buffer) uses[operand.buffer.value].push_back(i);
    for (std::size_t a = 0; a < schedule.buffers.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const bool overlap = layout.offset[a] < layout.offset[b] + schedule.buffers[b].bytes &&
                             layout.offset[b] < layout.offset[a] + schedule.buffers[a].bytes;
        if (!overlap) continue;
        const Buffer& x = schedule.buffers[a];
        const Buffer& y = schedule.buffers[b];
        ASSERT_TRUE(x.allocated_by && y.allocated_by)
            << schedule.name(x) << " over kept " << schedule.name(y);
        const std::size_t first = x.allocated_by < y.allocated_by ? a : b;
        const std::size_t second = first == a ? b : a;
        for (std::size_t use : uses[first])
          ASSERT_TRUE(before[uses[second].front()][use])
              << schedule.name(schedule.buffers[first]) << " then "
              << schedule.name(schedule.buffers[second]);
      }
    }
  }
}

TEST(NativeScheduleProperty, TheArenaHoldsThePeakWithLittleWaste) {
  for (const Setting& setting : all_settings()) {
    const Schedule schedule = schedule_of(testing::small_gpt2(3), setting, some_workspace);
    Bytes peak;
    for (const CategoryBytes& live : live_bytes(schedule)) peak = std::max(peak, live.total());
    const ArenaLayout layout = arena_layout(schedule);
    EXPECT_GE(layout.size, peak);
    // Units that are gathered far ahead live long beside short ones.
    const bool usual = setting.prefetch == Prefetching{} || setting.prefetch == no_prefetch;
    EXPECT_LE(static_cast<double>(layout.size.count),
              (usual ? 1.08 : 1.1) * static_cast<double>(peak.count));
  }
}

TEST(NativeScheduleProperty, EveryRankIssuesTheSameOperations) {
  for (Setting setting : all_settings()) {
    setting.rank = 0;
    const Schedule first = schedule_of(testing::small_gpt2(2), setting);
    const ArenaLayout layout = arena_layout(first);
    for (int rank = 1; rank < setting.world; ++rank) {
      setting.rank = rank;
      const Schedule other = schedule_of(testing::small_gpt2(2), setting);
      ASSERT_EQ(first.operations.size(), other.operations.size());
      for (std::size_t i = 0; i < first.operations.size(); ++i) {
        ASSERT_EQ(first.name(first.operations[i]), other.name(other.operations[i]));
        ASSERT_EQ(first.operations[i].stream, other.operations[i].stream);
      }
      EXPECT_EQ(layout.offset,
                arena_layout(other).offset);  // so that peers may read each other's arena in place
    }
  }
}

TEST(NativeScheduleProperty, EveryRankSumsTheSamePiecesInTheSameOrder) {
  // Who wrote which piece of the gathered norm, from every rank's sum_of_squares; then the order in
  // which clip_coefficient reads them, as (parameter, offset), must be the same in every sharding.
  using Piece = std::pair<std::uint32_t, std::int64_t>;
  std::map<std::vector<std::string>, std::set<std::vector<Piece>>> orders;  // by what is trained
  for (Setting setting : all_settings()) {
    std::map<std::int64_t, Piece> written;
    for (setting.rank = 0; setting.rank < setting.world; ++setting.rank) {
      const Schedule schedule = schedule_of(testing::small_gpt2(2), setting);
      for (const Operation& op : schedule.operations) {
        if (op.phase != Phase::clip || op.kind != OperationKind::compute || op.slices.size() == 0)
          continue;
        if (schedule.kernels[op.detail].kind() != KernelKind::sum_of_squares) continue;
        const std::int64_t first = schedule.operands_of(op)[1].offset.count / 8;
        for (const Slice& slice : schedule.slices_of(op))
          for (std::int64_t i = 0; i * piece_elements < slice.elements; ++i)
            written[first + slice.piece + i] = {slice.parameter.value,
                                                slice.parameter_offset + i * piece_elements};
      }
    }
    setting.rank = 0;
    const Schedule schedule = schedule_of(testing::small_gpt2(2), setting);
    std::vector<Piece> order;
    for (const Slice& slice :
         schedule.slices_of(schedule.operations[index_of(schedule, "clip_coefficient")]))
      for (std::int64_t i = 0; i * piece_elements < slice.elements; ++i)
        order.push_back(written.at(slice.piece_index(i)));
    orders[setting.trainable].insert(order);
  }
  ASSERT_EQ(orders.size(), 2u);
  for (const auto& [trainable, of_settings] : orders) EXPECT_EQ(of_settings.size(), 1u);
}

}  // namespace
}  // namespace shardscope
