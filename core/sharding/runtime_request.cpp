#include "core/sharding/runtime_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/format/json_reader.h"
#include "core/format/nearest_word.h"

namespace shardscope {
namespace {

constexpr std::pair<TrainingPrecision, std::string_view> precisions[] = {
    {TrainingPrecision::fp32, "fp32"},
    {TrainingPrecision::bf16, "bf16"},
    {TrainingPrecision::bf16_mixed, "bf16_mixed"},
    {TrainingPrecision::fp16_mixed, "fp16_mixed"},
};

/// The dtype that computing happens in under mixed precision.
std::optional<Dtype> compute_dtype(TrainingPrecision precision) {
  if (precision == TrainingPrecision::bf16_mixed) return Dtype::bfloat16;
  if (precision == TrainingPrecision::fp16_mixed) return Dtype::float16;
  return std::nullopt;
}

/// The tree in the dtype that the precision keeps parameters in.
ModuleTree tree_in(const Model& model, TrainingPrecision precision) {
  const Dtype dtype = precision == TrainingPrecision::bf16 ? Dtype::bfloat16 : Dtype::float32;
  ModuleTree tree = tree_of(model);
  for (TreeParameter& parameter : tree.parameters) parameter.dtype = dtype;
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

ShardingPlan fsdp1_plan(const Model& model, const RuntimeRequest& request) {
  if (request.sharding == ShardingStrategy::zero1)
    throw no_such_strategy(request, "shard_grad_op, or --runtime deepspeed");
  const ModuleTree tree = tree_in(model, request.precision);
  check_modules(tree, request.units);
  Fsdp1Settings settings{.world = request.world,
                         .strategy = request.sharding,
                         .use_original_parameters = request.use_original_parameters,
                         .mesh = request.mesh,
                         .ranks_per_node = request.ranks_per_node,
                         .wrapped_by_hand = single_modules(request.units),
                         .auto_wrap = auto_wrap(model, request.units)};
  if (const auto dtype = compute_dtype(request.precision))
    settings.mixed_precision = MixedPrecision{.parameters = dtype, .reduction = dtype};
  return plan_of(tree, settings, question_of(request));
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

ShardingPlan plan_of(const Model& model, const RuntimeRequest& request) {
  switch (request.runtime) {
    case Runtime::fsdp1:
      return fsdp1_plan(model, request);
    default:
      throw Error(
          {.where = "--runtime",
           .what = fmt::format("{} is not modelled by this version", name_of(request.runtime)),
           .way_out = "use native or fsdp1"});
  }
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
