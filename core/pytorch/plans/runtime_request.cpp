#include "core/pytorch/plans/runtime_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/nearest_word.h"
#include "core/format/json_reader.h"
#include "core/pytorch/plans/transformers_facts.h"

namespace shardscope {
namespace {

constexpr std::pair<TrainingPrecision, std::string_view> precisions[] = {
    {TrainingPrecision::fp32, "fp32"},
    {TrainingPrecision::bf16, "bf16"},
    {TrainingPrecision::bf16_mixed, "bf16_mixed"},
    {TrainingPrecision::fp16_mixed, "fp16_mixed"},
};

/// The tree in the dtype that the precision keeps parameters in.
ModuleTree tree_in(const Model& model, TrainingPrecision precision) {
  ModuleTree tree = tree_of(model);
  for (TreeParameter& parameter : tree.parameters) parameter.dtype = parameter_dtype(precision);
  return tree;
}

Error no_such_strategy(const RuntimeRequest& request, std::string_view choices) {
  return Error({.where = "--strategy",
                .what = fmt::format("{} is none of {}'s strategies", name_of(request.sharding),
                                    name_of(request.runtime)),
                .way_out = fmt::format("give {}", choices)});
}

void check_modules(const ModuleTree& tree, const UnitChoice& choice) {
  std::vector<std::string_view> names;
  for (const TreeModule& module : tree.modules) names.push_back(module.name);
  for (const auto& unit : choice.units) {
    for (const std::string& name : unit) {
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      const auto near = nearest_word(name, names);
      throw Error({.where = "--wrap units",
                   .what = fmt::format("the model has no module \"{}\"", name),
                   .way_out = near ? fmt::format("did you mean {}?", *near)
                                   : "`shardscope model --modules` lists them"});
    }
  }
}

Error bad_mesh(std::string what, std::string way_out) {
  return Error({.where = "--mesh", .what = std::move(what), .way_out = std::move(way_out)});
}

/// A mesh is of all ranks, and has the axes that the runtime shards over.
void check_mesh(const RuntimeRequest& request) {
  if (!request.mesh) return;
  const Mesh& mesh = *request.mesh;
  const std::string_view runtime = name_of(request.runtime);
  if (mesh.pipeline > 1)
    throw bad_mesh(fmt::format("{} has no pipeline axis", runtime),
                   "leave pipeline out; pipelines are not simulated");
  if (static_cast<std::int64_t>(mesh.replicate) * mesh.shard != request.world)
    throw bad_mesh(
        fmt::format("{} makes {} ranks, and the world has {}", text_of(mesh),
                    static_cast<std::int64_t>(mesh.replicate) * mesh.shard, request.world),
        "give axes that multiply to the world");
  if (request.runtime == Runtime::ddp && mesh.shard > 1)
    throw bad_mesh("ddp replicates the model on all ranks and has no shard axis",
                   "leave --mesh out, or give --runtime fsdp2");
  if (request.runtime == Runtime::deepspeed)
    throw bad_mesh("deepspeed shards over all ranks and takes no mesh",
                   "leave --mesh out; zero_hpz_partition_size in DeepSpeed's file shards "
                   "parameters within a node");
}

PlanQuestion question_of(const RuntimeRequest& request) {
  return {.world = request.world,
          .rank = request.rank,
          .precision = std::string(name_of(request.precision)),
          .optimizer = request.optimizer};
}

AutoWrap auto_wrap(const Model& model, const UnitChoice& units) {
  switch (units.kind) {
    case UnitChoice::Kind::transformer:
      return TransformerWrap{.classes = model.no_split_classes};
    case UnitChoice::Kind::size:
      return SizeWrap{.min_elements = units.min_elements};
    case UnitChoice::Kind::none:
    case UnitChoice::Kind::by_hand:
      return NoWrap{};
  }
  return NoWrap{};
}

/// FSDP1 wraps one module after the other, so that a unit of several cannot be.
std::vector<std::string> single_modules(const UnitChoice& units) {
  std::vector<std::string> names;
  for (const auto& unit : units.units) {
    if (unit.size() != 1)
      throw Error(
          {.where = "--wrap units",
           .what = fmt::format("FSDP1 wraps one module at a time, not {} in one unit", unit.size()),
           .way_out = "use --runtime fsdp2, whose fully_shard takes a list"});
    names.push_back(unit.front());
  }
  return names;
}

/// A hybrid's mesh has two dimensions. Of the other strategies' one dimension all ranks are in it,
/// as they are without a mesh; of two, FSDP1 would shard over the first.
std::optional<Mesh> fsdp1_mesh(const RuntimeRequest& request) {
  if (!request.mesh || is_hybrid(request.sharding)) return request.mesh;
  if (request.mesh->replicate > 1)
    throw bad_mesh(fmt::format("{} shards over all ranks, got {}", name_of(request.sharding),
                               text_of(*request.mesh)),
                   "use --strategy hybrid_shard, or drop the replicate axis");
  return std::nullopt;
}

Fsdp1Settings fsdp1_settings_on(const Model& model, const ModuleTree& tree,
                                const RuntimeRequest& request) {
  if (request.sharding == ShardingStrategy::zero1)
    throw no_such_strategy(request, "shard_grad_op, or --runtime deepspeed");
  check_modules(tree, request.units);
  Fsdp1Settings settings{.world = request.world,
                         .strategy = request.sharding,
                         .use_original_parameters = request.use_original_parameters,
                         .mesh = fsdp1_mesh(request),
                         .ranks_per_node = request.ranks_per_node,
                         .wrapped_by_hand = single_modules(request.units),
                         .auto_wrap = auto_wrap(model, request.units)};
  if (const auto dtype = compute_dtype(request.precision))
    settings.mixed_precision = MixedPrecision{.parameters = dtype, .reduction = dtype};
  return settings;
}

ShardingPlan fsdp1_plan(const Model& model, const RuntimeRequest& request) {
  const ModuleTree tree = tree_in(model, request.precision);
  return plan_of(tree, fsdp1_settings_on(model, tree, request), question_of(request));
}

Fsdp2Mesh fsdp2_mesh(const RuntimeRequest& request) {
  if (request.mesh)
    return {.replicas = request.mesh->replicate, .shards = request.mesh->shard, .given = true};
  if (!is_hybrid(request.sharding)) return {.shards = request.world, .given = false};
  if (request.world % request.ranks_per_node != 0)
    throw Error({.where = "--ranks-per-node",
                 .what = fmt::format("{} ranks are not whole nodes of {}", request.world,
                                     request.ranks_per_node),
                 .way_out = "give a divisor of the world, or --mesh"});
  return {.replicas = request.world / request.ranks_per_node, .shards = request.ranks_per_node};
}

/// The units from the bottom up, as fully_shard wants them, without the root.
std::vector<std::vector<std::int32_t>> fsdp2_units(const Model& model, const ModuleTree& tree,
                                                   const UnitChoice& choice) {
  std::vector<std::vector<std::int32_t>> units;
  if (choice.kind == UnitChoice::Kind::size)
    throw Error({.where = "--wrap",
                 .what = "FSDP2 has no size policy",
                 .way_out = "give transformer, none or units:FILE; accelerate's own policy is "
                            "followed with --accelerate"});
  for (const auto& unit : choice.units) {
    units.emplace_back();
    for (const std::string& name : unit) units.back().push_back(*find_module(tree, 0, name));
  }
  if (choice.kind != UnitChoice::Kind::transformer) return units;
  for (std::size_t i = tree.modules.size(); i-- > 1;) {
    const TreeModule& module = tree.modules[i];
    const bool wrapped = std::any_of(model.no_split_classes.begin(), model.no_split_classes.end(),
                                     [&](const std::string& name) { return module.is(name); });
    if (wrapped && !module.same_as) units.push_back({static_cast<std::int32_t>(i)});
  }
  return units;
}

std::string text_of(const Model& model, const UnitChoice& units) {
  if (units.kind == UnitChoice::Kind::by_hand) return "by hand";
  if (units.kind == UnitChoice::Kind::none) return "none";
  return fmt::format("transformer ({})", fmt::join(model.no_split_classes, ", "));
}

std::vector<FullyShardCall> fsdp2_calls(const Model& model, const ModuleTree& tree,
                                        const RuntimeRequest& request) {
  if (request.sharding == ShardingStrategy::zero1 || request.sharding == ShardingStrategy::no_shard)
    throw no_such_strategy(request, "shard_grad_op or full_shard, or --runtime ddp");
  check_modules(tree, request.units);
  const bool reshards = request.sharding == ShardingStrategy::full_shard ||
                        request.sharding == ShardingStrategy::hybrid_shard;
  const auto dtype = compute_dtype(request.precision);
  const FullyShardCall shared{
      .mesh = fsdp2_mesh(request),
      .reshard_after_forward = reshards ? ReshardAfterForward() : ReshardAfterForward(false),
      .precision = {.parameters = dtype, .reduction = dtype, .output = dtype}};
  std::vector<FullyShardCall> calls;
  auto units = fsdp2_units(model, tree, request.units);
  units.push_back({0});
  for (auto& modules : units) {
    calls.push_back(shared);
    calls.back().list = modules.size() > 1;
    calls.back().modules = std::move(modules);
  }
  return calls;
}

ShardingPlan fsdp2_plan(const Model& model, const RuntimeRequest& request) {
  const ModuleTree tree = tree_in(model, request.precision);
  const std::vector<FullyShardCall> calls = fsdp2_calls(model, tree, request);
  return plan_of(tree, fully_shard(tree, calls),
                 {.sharding = request.sharding,
                  .mesh = calls.front().mesh,
                  .wrap = text_of(model, request.units)},
                 question_of(request));
}

ShardingPlan ddp_plan(const Model& model, const RuntimeRequest& request) {
  const bool zero1 = request.sharding == ShardingStrategy::zero1;
  if (!zero1 && request.sharding != ShardingStrategy::no_shard)
    throw no_such_strategy(
        request, "no_shard, which is what DDP does, or zero1: ZeroRedundancyOptimizer beside it");
  // Buckets by DDP's limits, which hold from the first iteration on only with this option.
  return plan_of(tree_in(model, request.precision),
                 DdpShown{.options = {.find_unused_parameters = true}, .zero_redundancy = zero1},
                 question_of(request));
}

int stage_of(const RuntimeRequest& request) {
  if (is_hybrid(request.sharding))
    throw no_such_strategy(request, "no_shard, zero1, shard_grad_op or full_shard: stages 0 to 3");
  return zero_stage(request.sharding);
}

ShardingPlan deepspeed_plan(const Model& model, const RuntimeRequest& request) {
  ZeroSettings settings{.stage = stage_of(request),
                        .world = request.world,
                        .precision = compute_dtype(request.precision)};
  if (request.precision == TrainingPrecision::bf16) settings.precision = Dtype::bfloat16;
  return plan_of(tree_in(model, request.precision), settings, question_of(request));
}

ShardingPlan runtime_plan(const Model& model, const RuntimeRequest& request) {
  check_mesh(request);
  switch (request.runtime) {
    case Runtime::fsdp1:
      return fsdp1_plan(model, request);
    case Runtime::fsdp2:
      return fsdp2_plan(model, request);
    case Runtime::ddp:
      return ddp_plan(model, request);
    case Runtime::deepspeed:
      return deepspeed_plan(model, request);
    case Runtime::native:
      break;
  }
  throw Error({.where = "--runtime", .what = "native units come from the native schedule"});
}

}  // namespace

std::string_view name_of(TrainingPrecision precision) {
  for (const auto& [value, name] : precisions)
    if (value == precision) return name;
  return "?";
}

TrainingPrecision parse_training_precision(std::string_view text, std::string_view where) {
  for (const auto& [value, name] : precisions)
    if (name == text) return value;
  throw Error({.where = std::string(where),
               .what = fmt::format("\"{}\" is none of fp32, bf16, bf16_mixed, fp16_mixed", text)});
}

std::optional<Dtype> compute_dtype(TrainingPrecision precision) {
  if (precision == TrainingPrecision::bf16_mixed) return Dtype::bfloat16;
  if (precision == TrainingPrecision::fp16_mixed) return Dtype::float16;
  return std::nullopt;
}

Dtype parameter_dtype(TrainingPrecision precision) {
  return precision == TrainingPrecision::bf16 ? Dtype::bfloat16 : Dtype::float32;
}

Fsdp1Settings fsdp1_settings(const Model& model, const RuntimeRequest& request) {
  return fsdp1_settings_on(model, tree_of(model), request);
}

std::vector<FullyShardCall> fully_shard_calls(const Model& model, const RuntimeRequest& request) {
  return fsdp2_calls(model, tree_of(model), request);
}

int zero_stage(const RuntimeRequest& request) { return stage_of(request); }

ShardingPlan plan_of(const Model& model, const RuntimeRequest& request) {
  ShardingPlan plan = runtime_plan(model, request);
  const bool by_class = request.units.kind == UnitChoice::Kind::transformer;
  if (by_class && model.no_split_classes.empty() && !plan.units.empty())
    plan.warnings.push_back({"wraps-nothing",
                             "the model names no classes to wrap (_no_split_modules): it is one "
                             "unit, unless --wrap says otherwise"});
  return plan;
}

UnitChoice read_units(const std::string& path) {
  const JsonValue json = JsonValue::read_file(path, DuplicateKeys::refuse, 16 << 20);
  UnitChoice choice{.kind = UnitChoice::Kind::by_hand};
  std::set<std::string> taken;
  for (const JsonValue& unit : json.elements()) {
    std::vector<std::string> names;
    for (const JsonValue& name : unit.elements()) {
      names.push_back(name.string());
      if (!taken.insert(names.back()).second)
        throw name.error(fmt::format("module \"{}\" stands in two units", names.back()));
    }
    if (names.empty()) throw unit.error("a unit without modules", "leave it out");
    choice.units.push_back(std::move(names));
  }
  return choice;
}

UnitChoice parse_units(std::string_view text, std::string_view where) {
  if (text.starts_with("units:")) return read_units(std::string(text.substr(6)));
  const Wrap wrap = parse_wrap(text, where);
  if (wrap.policy == WrapPolicy::size)
    return {.kind = UnitChoice::Kind::size, .min_elements = wrap.min_elements};
  return {.kind = wrap.policy == WrapPolicy::none ? UnitChoice::Kind::none
                                                  : UnitChoice::Kind::transformer};
}

}  // namespace shardscope
