// FSDP1 at run time. Expected sequences and sizes are worked out by hand from the rules in the
// comments; torch 2.15's own sequences are compared by `check_recordings collectives`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/lower/pytorch/aten/copies.h"
#include "core/lower/pytorch/aten/matmul.h"
#include "core/lower/pytorch/aten/pointwise.h"
#include "core/lower/pytorch/aten/reductions.h"
#include "core/lower/pytorch/checkpoint.h"
#include "core/lower/pytorch/engine.h"
#include "core/runtime/fsdp1/clip.h"
#include "core/runtime/fsdp1/fully_sharded.h"
#include "core/runtime/fsdp1/state_dict.h"
#include "core/runtime/process_group.h"

namespace shardscope::eager {
namespace {

using fsdp1::BackwardPrefetch;
using fsdp1::Site;
using fsdp1::Visit;
using testing::ElementsAre;
using Names = std::vector<std::string>;
using EagerModule = eager::Module;

std::string short_name(const fsdp1::Unit& unit) {
  return unit.plan.module.empty() ? "R" : "L" + unit.plan.module.substr(7);
}

/// What is issued, in short: "AG:L1", "RS:R", "wait:L2" (until L2 was freed), "free:L1".
class Sequence : public Observer, public fsdp1::Watcher {
 public:
  Names rows;
  std::vector<std::int64_t> reduced_elements;
  std::vector<Dtype> gathered_dtypes;

  void on_enter(Session&, const Visit& visit) override {
    if (visit.unit) units_.push_back(visit.unit);
    if (visit.site == Site::reshard && visit.frees)
      rows.push_back("free:" + short_name(*visit.unit));
    sites_.push_back(visit.unit != nullptr);
  }
  void on_leave(Session&, const Visit&) override {
    if (sites_.back()) units_.pop_back();
    sites_.pop_back();
  }
  void on_limiter_enqueue(Session&, EventId event, std::size_t) override {
    freed_[event] = short_name(*units_.back());
  }
  void on_host_wait(Session&, EventId event) override { rows.push_back("wait:" + freed_[event]); }
  void on_collective(Session&, const CollectiveCall& call) override {
    if (call.kind == OperationKind::all_gather) gathered_dtypes.push_back(call.dtype);
    if (call.kind != OperationKind::all_gather) reduced_elements.push_back(call.elements_out);
    const char* kind = call.kind == OperationKind::all_gather       ? "AG:"
                       : call.kind == OperationKind::reduce_scatter ? "RS:"
                                                                    : "AR:";
    rows.push_back(kind + (units_.empty() ? std::string("-") : short_name(*units_.back())));
  }

  /// Those rows that begin so.
  Names of(const std::string& prefix) const {
    Names found;
    for (const std::string& row : rows)
      if (row.starts_with(prefix)) found.push_back(row);
    return found;
  }

 private:
  std::vector<const fsdp1::Unit*> units_;
  std::vector<bool> sites_;
  std::map<EventId, std::string> freed_;
};

/// The largest storage that there was.
class LargestStorage : public Observer {
 public:
  std::int64_t largest = 0;

  void on_storage_allocated(Session&, StorageImpl& storage) override { add(storage.bytes()); }
  void on_storage_resized(Session&, StorageImpl& storage, Bytes) override { add(storage.bytes()); }

 private:
  void add(Bytes bytes) { largest = std::max(largest, bytes.count); }
};

std::shared_ptr<EagerModule> linear_block(Session& s, const std::string& name, std::int64_t width) {
  auto module = std::make_shared<EagerModule>();
  module->name = name;
  module->class_name = "Block";
  for (const auto& [own, sizes] : {std::pair<const char*, Dims>{"weight", {width, width}},
                                   std::pair<const char*, Dims>{"bias", {width}}}) {
    const Tensor parameter = empty(s, sizes, {Dtype::float32, s.settings.device});
    parameter.set_requires_grad(true);
    module->parameters.push_back({.name = own, .tensor = parameter});
  }
  module->forward = [](Session& in, EagerModule& self, const Arguments& arguments) -> Tensors {
    return {linear(in, arguments[0], self.parameter("weight"), self.parameter("bias"))};
  };
  return module;
}

/// Blocks layers.1 .. layers.n of `width` inputs and outputs, each a unit, and a root with a head
/// of the same kind.
class Chain {
 public:
  struct Settings {
    int blocks = 4;
    int world = 2;
    std::int64_t width = 4;
    ShardingStrategy strategy = ShardingStrategy::full_shard;
    fsdp1::Options options = {};
    /// Puts checkpoints around what is wrapped of each block.
    std::function<std::shared_ptr<EagerModule>(std::shared_ptr<EagerModule>)> around = {};
  };

  explicit Chain(const Settings& settings) : groups(settings.world, 0), width_(settings.width) {
    s.observe(sequence);
    s.observe(storages);
    auto root = std::make_shared<EagerModule>();
    root->class_name = "Chain";
    auto layers = std::make_shared<EagerModule>();
    layers->name = "layers";
    for (int i = 1; i <= settings.blocks; ++i)
      layers->children.push_back(
          {std::to_string(i), linear_block(s, "layers." + std::to_string(i), width_)});
    root->children = {{"layers", layers}, {"head", linear_block(s, "head", width_)}};
    root->forward = [](Session& in, EagerModule& self, const Arguments& arguments) -> Tensors {
      Tensor x = arguments[0];
      for (const auto& layer : self.child("layers").children) x = call_one(in, *layer.module, {x});
      return {sum(in, call_one(in, self.child("head"), {x}))};
    };
    model = std::make_unique<fsdp1::FullySharded>(
        s, fsdp1::FullySharded::Input{
               .module = root,
               .plan = plan_fsdp1(tree(settings.blocks), plan_settings(settings)),
               .options = settings.options,
               .groups = groups_of(settings),
               .watchers = {&sequence}});
    if (settings.around)
      for (auto& layer : layers->children) layer.module = settings.around(layer.module);
  }

  Tensor forward() {
    const Tensor input = empty(s, {2, width_}, {Dtype::float32, s.settings.device});
    input.set_requires_grad(true);
    return call_one(s, model->module(), {input});
  }
  void iteration() {
    backward(s, forward());
    for (const Tensor& parameter : model->parameters()) parameter.set_grad({});
  }

  Session s{{.device = Device::cpu, .watched = true}};
  ProcessGroups groups;
  Sequence sequence;
  LargestStorage storages;
  std::unique_ptr<fsdp1::FullySharded> model;

 private:
  ModuleTree tree(int blocks) const {
    ModuleTree tree;
    const auto add = [&](const std::string& name, std::int32_t parent, bool has_parameters) {
      const auto place = static_cast<std::int32_t>(tree.modules.size());
      tree.modules.push_back({.name = name,
                              .class_name = "",
                              .bases = {},
                              .parameters = {},
                              .children = {},
                              .parent = parent,
                              .same_as = {}});
      if (parent >= 0) tree.modules[static_cast<std::size_t>(parent)].children.push_back(place);
      if (!has_parameters) return place;
      for (const Shape& shape : {Shape{width_, width_}, Shape{width_}}) {
        tree.modules.back().parameters.push_back(static_cast<std::int32_t>(tree.parameters.size()));
        tree.parameters.push_back({.name = name + (shape.size() == 2 ? ".weight" : ".bias"),
                                   .shape = shape,
                                   .dtype = Dtype::float32,
                                   .trainable = true,
                                   .same_as = {}});
      }
      return place;
    };
    const auto root = add("", -1, false);
    const auto layers = add("layers", root, false);
    for (int i = 1; i <= blocks; ++i) add("layers." + std::to_string(i), layers, true);
    add("head", root, true);
    return tree;
  }

  fsdp1::Groups groups_of(const Settings& settings) {
    if (settings.strategy != ShardingStrategy::hybrid_shard)
      return {.world = &groups.world(), .all = &groups.world()};
    const auto mesh = groups.mesh({2, settings.world / 2});
    return {.world = &groups.world(), .all = mesh[0], .shard = mesh[1], .replicas = mesh[0]};
  }

  static Fsdp1Settings plan_settings(const Settings& settings) {
    Fsdp1Settings wanted;
    wanted.world = settings.world;
    wanted.strategy = settings.strategy;
    wanted.use_original_parameters = settings.options.use_original_parameters;
    if (settings.options.precision.parameters)
      wanted.mixed_precision = MixedPrecision{settings.options.precision.parameters,
                                              settings.options.precision.reduction};
    if (settings.strategy == ShardingStrategy::hybrid_shard)
      wanted.mesh = Mesh{.replicate = 2, .shard = settings.world / 2};
    CustomWrap wrap;
    for (int i = 1; i <= settings.blocks; ++i)
      wrap.units.push_back(
          {.module = "layers." + std::to_string(i), .strategy = {}, .use_original_parameters = {}});
    wanted.auto_wrap = wrap;
    return wanted;
  }

  std::int64_t width_;
};

TEST(Fsdp1Runtime, BackwardPreGathersTheUnitBeforeAheadOfTheReduction) {
  Chain chain({});
  const Tensor loss = chain.forward();
  chain.sequence.rows.clear();
  backward(chain.s, loss);
  Names collectives;
  for (const std::string& row : chain.sequence.rows)
    if (row.starts_with("AG") || row.starts_with("RS")) collectives.push_back(row);
  // The root is still unsharded, and asks for the last block.
  EXPECT_THAT(collectives, ElementsAre("AG:L4", "AG:L3", "RS:L4", "AG:L2", "RS:L3", "AG:L1",
                                       "RS:L2", "RS:L1", "RS:R"));
}

TEST(Fsdp1Runtime, TheLimiterKeepsEventsOfTheLastIteration) {
  // After an iteration with BACKWARD_PRE the frees of L3, L2, L1 and R are left. Forward 2 takes
  // them for R, L1, L2 and L3, so that L4 is the first to wait for this iteration: for L1.
  Chain chain({});
  chain.iteration();
  EXPECT_EQ(chain.model->shared().limiter.size(), 4U);
  chain.sequence.rows.clear();
  chain.forward();
  EXPECT_THAT(chain.sequence.of("wait:"),
              ElementsAre("wait:L3", "wait:L2", "wait:L1", "wait:R", "wait:L1"));
}

TEST(Fsdp1Runtime, WithBackwardPostThreeEventsAreLeft) {
  Chain chain({.options = {.backward_prefetch = BackwardPrefetch::post}});
  chain.iteration();
  EXPECT_EQ(chain.model->shared().limiter.size(), 3U);
}

TEST(Fsdp1Runtime, TheRootStaysGatheredAfterAnEvaluation) {
  Chain chain({});
  {
    const NoGrad no_grad(chain.s);
    chain.forward();
  }
  const auto& units = chain.model->units();
  EXPECT_GT(units[0]->handle->full_padded().storage()->bytes(), Bytes{});
  EXPECT_EQ(units[1]->handle->full_padded().storage()->bytes(), Bytes{});
}

/// Sizes of the storages that are alive when the backward puts a unit's gradients together.
class AtConcatenation : public Observer {
 public:
  std::vector<std::vector<std::int64_t>> alive;

  void on_storage_allocated(Session&, StorageImpl& storage) override {
    sizes_[storage.id()] = storage.bytes().count;
  }
  void on_storage_freed(Session&, StorageImpl& storage) override { sizes_.erase(storage.id()); }
  void on_operator(Session& s, const OperatorCall& call) override {
    if (!s.engine().running() || call.op.name != "aten.cat.default") return;
    alive.emplace_back();
    for (const auto& [id, bytes] : sizes_) alive.back().push_back(bytes);
  }

 private:
  std::map<std::uint64_t, std::int64_t> sizes_;
};

TEST(Fsdp1Runtime, GradientsExistTwiceAtTheConcatenation) {
  // Width 64: a weight's gradient has 16384 bytes, a bias' 256, and the flat one 16640.
  AtConcatenation watcher;  // outlives what it watches
  Chain chain({.blocks = 2, .width = 64});
  chain.s.observe(watcher);
  backward(chain.s, chain.forward());
  ASSERT_EQ(watcher.alive.size(), 3U);
  EXPECT_THAT(watcher.alive[0], testing::IsSupersetOf({16384, 256, 16640}));
}

TEST(Fsdp1Runtime, LazyInitializationAllocatesEachUnitInFullPrecision) {
  // Units of 4 x 4 + 4 elements: 40 bytes in bfloat16, 80 in the float32 that training never uses.
  Chain chain({.options = {.precision = {.parameters = Dtype::bfloat16}}});
  chain.storages.largest = 0;
  chain.forward();
  EXPECT_EQ(chain.storages.largest, 80);
}

TEST(Fsdp1Runtime, NoSyncAccumulatesInTheComputeDtype) {
  Chain chain(
      {.options = {.precision = {.parameters = Dtype::bfloat16, .reduction = Dtype::float32}}});
  chain.model->begin_no_sync(chain.s);
  backward(chain.s, chain.forward());
  chain.model->end_no_sync();
  const Tensor& gradient = chain.model->units()[1]->handle->flat().grad();
  EXPECT_EQ(gradient.dtype(), Dtype::bfloat16);
  EXPECT_EQ(gradient.numel(), 20);
  EXPECT_THAT(chain.sequence.of("RS:"), ElementsAre());
}

TEST(Fsdp1Runtime, ShardGradOpGathersNothingAfterNoSync) {
  Chain chain({.strategy = ShardingStrategy::shard_grad_op});
  chain.model->begin_no_sync(chain.s);
  backward(chain.s, chain.forward());
  chain.model->end_no_sync();
  chain.sequence.rows.clear();
  backward(chain.s, chain.forward());
  EXPECT_THAT(chain.sequence.of("AG:"), ElementsAre());
}

Names gathers_of_the_last_block(bool reentrant) {
  Chain chain({.around = [&](std::shared_ptr<EagerModule> module) {
    return checkpoint_wrapper(std::move(module), {.reentrant = reentrant});
  }});
  chain.iteration();
  return chain.sequence.of("AG:L4");
}

TEST(Fsdp1Runtime, OnlyReentrantCheckpointsOutsideAUnitGatherAThirdTime) {
  EXPECT_EQ(gathers_of_the_last_block(false).size(), 2U);
  EXPECT_EQ(gathers_of_the_last_block(true).size(), 3U);
}

TEST(Fsdp1Runtime, HybridShardsReduceTheShardAmongReplicas) {
  // 2 replicas x 2 shards: the all-reduce carries half of the unit's 20 elements.
  Chain chain({.blocks = 1, .world = 4, .strategy = ShardingStrategy::hybrid_shard});
  chain.sequence.reduced_elements.clear();
  chain.iteration();
  EXPECT_THAT(chain.sequence.of("AR:"), ElementsAre("AR:L1", "AR:R"));
  EXPECT_THAT(chain.sequence.reduced_elements, ElementsAre(10, 10, 10, 10));
  EXPECT_EQ(chain.model->units()[0]->divide_before, 2);
  EXPECT_EQ(chain.model->units()[0]->divide_after, 2);
}

TEST(Fsdp1Runtime, StateDictsGatherInFullPrecision) {
  Chain chain({.options = {.precision = {.parameters = Dtype::bfloat16}}});
  const fsdp1::StateDict state = fsdp1::state_dict(chain.s, *chain.model, {});
  EXPECT_EQ(state.size(), 10U);
  EXPECT_THAT(chain.sequence.gathered_dtypes, testing::Each(Dtype::float32));
  EXPECT_EQ(chain.sequence.of("AG:").size(), 5U);
}

TEST(Fsdp1Runtime, ClippingReducesOneNumber) {
  Chain chain({});
  backward(chain.s, chain.forward());
  chain.sequence.reduced_elements.clear();
  fsdp1::clip_grad_norm(chain.s, *chain.model);
  EXPECT_THAT(chain.sequence.reduced_elements, ElementsAre(1));
}

}  // namespace
}  // namespace shardscope::eager
