// What the native runtime keeps and moves of a model that is trained in part.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/model/trainable.h"
#include "core/native/native_abilities.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "core/native/zero_paper.h"
#include "core/schedule/schedule.h"
#include "tests/core/small_models.h"

namespace shardscope {
namespace {

using ::testing::ElementsAre;
using enum ShardingStrategy;

/// GPT-2 of two blocks, of which attention and the final norm's bias are trained. Each of its
/// parameters has at most 256 elements, so that it takes 256 of a flat storage: of a block 4
/// trained ones take 1024 and 8 frozen ones 2048, of the root 1 takes 256 and 3 take 768.
Model attention_only() {
  Model model = testing::small_gpt2(2);
  freeze_all_but(model, {"attn", "ln_f.bias"});
  return model;
}
/// By hand, 2 * (8 * 24 + 24 + 8 * 8 + 8) + 8 and 2 * 872 + 208.
constexpr std::int64_t trained_elements = 584, all_elements = 1952;

Strategy strategy_of(ShardingStrategy sharding, int world, Precision precision = Precision::fp32) {
  Strategy strategy{.sharding = sharding, .precision = precision};
  if (is_hybrid(sharding)) strategy.mesh = {.replicate = 2, .shard = world / 2};
  return resolved(strategy, world, "test");
}

Schedule schedule_of(const Strategy& strategy, int rank = 0, const Optimizer& optimizer = {}) {
  return native_schedule(attention_only(), strategy,
                         {.batch = 2, .length = 4, .optimizer = optimizer, .clip = 1.0}, rank);
}

/// Elements of all flat storages of each kind, each padded to 256 * ranks.
struct Stored {
  int ranks;
  std::int64_t trained, frozen;
};
constexpr Stored stored_elements[] = {
    {1, 2 * 1024 + 256, 2 * 2048 + 768},
    {2, 2 * 1024 + 512, 2 * 2048 + 1024},
    {3, 2 * 1536 + 768, 2 * 2304 + 768},
    {4, 2 * 1024 + 1024, 2 * 2048 + 1024},
};

struct ElementBytes {
  Precision precision;
  Optimizer optimizer;
  std::int64_t parameter, gradient, states;
};
const ElementBytes element_bytes[] = {
    {Precision::fp32, {}, 4, 4, 4 + 4},
    {Precision::bf16, {}, 2, 2, 2 + 2},
    {Precision::bf16_mixed, {}, 2, 4, 4 + 4 + 4},  // a master copy too
    {Precision::bf16_mixed, {.kind = OptimizerKind::sgd, .momentum = 0.9}, 2, 4, 4 + 4},
    {Precision::fp32, {.kind = OptimizerKind::sgd, .momentum = 0}, 4, 4, 0},
};

/// How many ranks share each kind of model state.
struct Shared {
  std::int64_t parameters, gradients, states;
};
Shared shared_by(const Strategy& strategy) {
  const std::int64_t shards = strategy.mesh.shard;
  switch (strategy.sharding) {
    case no_shard:
      return {1, 1, 1};
    case zero1:
      return {1, 1, shards};
    case shard_grad_op:
    case hybrid_shard_zero2:
      return {1, shards, shards};
    default:
      return {shards, shards, shards};
  }
}

TEST(NativeFrozen, GradientsMasterCopyAndStatesAreOfTrainedParametersOnly) {
  for (const auto& [ranks, trained, frozen] : stored_elements) {
    for (const ShardingStrategy sharding : native_abilities().strategies) {
      if (is_hybrid(sharding) && ranks != 4) continue;
      for (const ElementBytes& bytes : element_bytes) {
        SCOPED_TRACE(
            fmt::format("{}, {} ranks, {}", name_of(sharding), ranks, name_of(bytes.precision)));
        const Strategy strategy = strategy_of(sharding, ranks, bytes.precision);
        const Shared by = shared_by(strategy);
        const ModelStates expected{
            .parameters = Bytes{bytes.parameter * (trained + frozen) / by.parameters},
            .gradients = Bytes{bytes.gradient * trained / by.gradients},
            .optimizer_states = Bytes{bytes.states * trained / by.states}};
        for (int rank = 0; rank < ranks; ++rank)
          EXPECT_EQ(states_of(schedule_of(strategy, rank, bytes.optimizer)), expected);
      }
    }
  }
}

TEST(NativeFrozen, PaddingIsWhatNoParameterUses) {
  for (const int ranks : {1, 2, 3, 4}) {
    ModelStates used;
    for (int rank = 0; rank < ranks; ++rank) {
      const Schedule schedule = schedule_of(strategy_of(full_shard, ranks), rank);
      const ModelStates states = states_of(schedule), padding = padding_of(schedule);
      used.parameters += states.parameters - padding.parameters;
      used.gradients += states.gradients - padding.gradients;
      used.optimizer_states += states.optimizer_states - padding.optimizer_states;
    }
    EXPECT_EQ(used, (ModelStates{.parameters = Bytes{4 * all_elements},
                                 .gradients = Bytes{4 * trained_elements},
                                 .optimizer_states = Bytes{8 * trained_elements}}));
  }
}

/// "all_gather:root 1024": of what is gathered or reduced, the whole.
std::vector<std::string> collectives_of(const Schedule& schedule) {
  std::vector<std::string> texts;
  for (const Operation& op : schedule.operations) {
    if (!is_collective(op.kind) || !op.unit) continue;
    const Collective& collective = schedule.collectives[op.detail];
    texts.push_back(fmt::format("{} {}", schedule.name(op),
                                std::max(collective.elements_in, collective.elements_out)));
  }
  return texts;
}

// Two ranks: the root's trained 256 are padded to 512, its frozen 768 to 1024. Nothing of the root
// is trained below the blocks, so that its gradient is complete before theirs.
TEST(NativeFrozen, FrozenParametersAreGatheredAndNeverReduced) {
  EXPECT_THAT(
      collectives_of(schedule_of(strategy_of(full_shard, 2))),
      ElementsAre("all_gather:root 512", "all_gather:root (frozen) 1024",
                  "all_gather:transformer.h.0 1024", "all_gather:transformer.h.0 (frozen) 2048",
                  "all_gather:transformer.h.1 1024", "all_gather:transformer.h.1 (frozen) 2048",
                  "reduce_scatter:root 512", "all_gather:transformer.h.0 1024",
                  "all_gather:transformer.h.0 (frozen) 2048", "reduce_scatter:transformer.h.1 1024",
                  "reduce_scatter:transformer.h.0 1024"));
}

TEST(NativeFrozen, OnlyWhatWasUpdatedIsGatheredAfterTheOptimizer) {
  for (const ShardingStrategy sharding : {zero1, shard_grad_op})
    EXPECT_THAT(collectives_of(schedule_of(strategy_of(sharding, 2))),
                ElementsAre("reduce_scatter:root 512", "reduce_scatter:transformer.h.1 1024",
                            "reduce_scatter:transformer.h.0 1024", "all_gather:root 512",
                            "all_gather:transformer.h.0 1024", "all_gather:transformer.h.1 1024"));
  EXPECT_THAT(collectives_of(schedule_of(strategy_of(no_shard, 2))),
              ElementsAre("all_reduce:root 512", "all_reduce:transformer.h.1 1024",
                          "all_reduce:transformer.h.0 1024"));
}

TEST(NativeFrozen, HybridSumsTrainedShardsOverReplicas) {
  // Four ranks, two shards: half of 1024 a block, and half of the root's 256 padded to 1024.
  std::vector<std::string> sums;
  for (const std::string& text : collectives_of(schedule_of(strategy_of(hybrid_shard, 4))))
    if (text.starts_with("all_reduce")) sums.push_back(text);
  EXPECT_THAT(sums, ElementsAre("all_reduce:root 512", "all_reduce:transformer.h.1 512",
                                "all_reduce:transformer.h.0 512"));
}

/// Elements of each parameter that kernels of a kind go through, over the ranks.
std::map<std::string, std::int64_t> elements_of(KernelKind kind, const Strategy& strategy) {
  const Model model = attention_only();
  std::map<std::string, std::int64_t> elements;
  for (int rank = 0; rank < strategy.mesh.world(); ++rank) {
    const Schedule schedule = schedule_of(strategy, rank);
    for (const Operation& op : schedule.operations) {
      if (op.slices.size() == 0 || schedule.kernels[op.detail].kind() != kind) continue;
      for (const Slice& slice : schedule.slices_of(op)) {
        const Parameter& parameter = model.parameters[slice.parameter.value];
        elements[parameter.name] += slice.elements;
        EXPECT_EQ(slice.decay, parameter.shape.size() == 2) << parameter.name;
      }
    }
  }
  return elements;
}

TEST(NativeFrozen, NormAndUpdateGoThroughEachTrainedElementOnce) {
  std::map<std::string, std::int64_t> trained;
  for (const Parameter& parameter : attention_only().parameters)
    if (parameter.trainable) trained[parameter.name] = parameter.elements();
  ASSERT_EQ(trained.size(), 9u);
  for (const ShardingStrategy sharding : {zero1, shard_grad_op, full_shard}) {
    const Strategy strategy = strategy_of(sharding, 3);
    EXPECT_EQ(elements_of(KernelKind::sum_of_squares, strategy), trained) << name_of(sharding);
    EXPECT_EQ(elements_of(KernelKind::adamw, strategy), trained) << name_of(sharding);
  }
}

TEST(NativeFrozen, UnitsOfOneKindStayWhole) {
  // All of h.0 is frozen and all of h.1 is trained; only the root has both.
  Model model = testing::small_gpt2(2);
  freeze_all_but(model, {"h.1", "ln_f"});
  const Schedule schedule =
      native_schedule(model, strategy_of(full_shard, 2), {.batch = 2, .length = 4}, 0);
  std::vector<std::string> units;
  for (const Unit& unit : schedule.units)
    units.push_back(fmt::format("{}: {}", unit.name, unit.elements));
  EXPECT_THAT(units, ElementsAre(": 16", "transformer.h.0: 872", "transformer.h.1: 872",
                                 "root (frozen): 192"));
}

}  // namespace
}  // namespace shardscope
