// fsdp2.json: parameter groups and shards of fully_shard.
#include "tests/recordings/flat_parameters_fsdp2.h"

#include <nlohmann/json.hpp>
#include <regex>

#include "core/pytorch/plans/fsdp2_shard.h"
#include "tests/recordings/flat_parameters.h"
#include "tests/recordings/flat_parameters_traffic.h"
#include "tests/recordings/recorded_models.h"
#include "tests/recordings/recorded_outcome.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

const TreeParameter& parameter_of(const ModuleTree& tree, std::int32_t id) {
  return tree.parameters[static_cast<std::size_t>(id)];
}

Json layout_of(const ModuleTree& tree, const Fsdp2Group& group) {
  Json modules = Json::array(), parameters = Json::array(), shared = Json::array();
  for (const std::int32_t id : group.modules)
    modules.push_back(tree.modules[static_cast<std::size_t>(id)].name);
  for (const Fsdp2Parameter& p : group.parameters) {
    const TreeParameter& parameter = parameter_of(tree, p.parameter);
    Json row{parameter.name, parameter.shape, parameter.elements(), p.shard_dim};
    if (!parameter.trainable) row.push_back("frozen");
    parameters.push_back(std::move(row));
    for (const std::int32_t alias : p.aliases)
      shared.push_back(Json::array({parameter_of(tree, alias).name, parameter.name}));
  }
  Json row{{"modules", modules}, {"params", parameters}};
  if (!shared.empty()) row["shared"] = shared;
  return row;
}

Json local_of(const ModuleTree& tree, const Fsdp2Group& group, int rank) {
  std::int64_t elements = 0;
  Json sizes = Json::array();
  for (const Fsdp2Parameter& p : group.parameters) {
    const Fsdp2Shard shard = fsdp2_shard(parameter_of(tree, p.parameter).shape, p.shard_dim,
                                         group.mesh.shards, rank % group.mesh.shards);
    elements += shard.elements;
    sizes.push_back(shard.dim_size);
  }
  return Json::array({elements, sizes});
}

Json numbers_of(const ModuleTree& tree, const Fsdp2Group& group, const std::vector<int>& ranks) {
  Json padded = Json::array(), locals = Json::object();
  for (const Fsdp2Parameter& p : group.parameters)
    padded.push_back(
        padded_dim_size(parameter_of(tree, p.parameter).shape, p.shard_dim, group.mesh.shards));
  for (const int rank : ranks) locals[std::to_string(rank)] = local_of(tree, group, rank);
  return {{"shard_size", group.mesh.shards},
          {"replicate_size", group.mesh.replicas},
          {"post_forward_shard_size",
           group.post_forward_shards ? Json(*group.post_forward_shards) : Json()},
          {"padded_dim", padded},
          {"padded_numel", padded_shard_elements(tree, group)},
          {"ranks", locals}};
}

std::vector<int> worlds_of(const Json& given) {
  const Json& world = given.at("world");
  return world.is_array() ? world.get<std::vector<int>>() : std::vector<int>{world.get<int>()};
}

bool matches_any(const std::string& name, const Json& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const Json& pattern) {
    return std::regex_match(name, std::regex(pattern.get<std::string>()));
  });
}

/// dict(model.named_modules())[name].
std::int32_t module_named(const ModuleTree& tree, const std::string& name) {
  for (std::size_t i = 0; i < tree.modules.size(); ++i)
    if (tree.modules[i].name == name && !tree.modules[i].same_as)
      return static_cast<std::int32_t>(i);
  throw Refusal("KeyError",
                {.where = "apply", .what = "there is no module " + name, .way_out = {}});
}

ReshardAfterForward reshard_of(const Json& value) {
  if (value.is_null()) return std::nullopt;
  if (value.is_boolean()) return value.get<bool>();
  return value.get<std::int64_t>();
}

Fsdp2MixedPrecision precision_of(const Json& given) {
  Fsdp2MixedPrecision precision;
  const auto dtype = [&](const char* key) {
    return given.contains(key) && given.at(key).is_string()
               ? std::optional(recorded_dtype(given.at(key).get<std::string>()))
               : std::nullopt;
  };
  precision.parameters = dtype("param_dtype");
  precision.reduction = dtype("reduce_dtype");
  precision.output = dtype("output_dtype");
  precision.cast_forward_inputs = given.value("cast_forward_inputs", true);
  return precision;
}

/// One entry of `apply`: a setting may stand in it or in the case.
class RecordedCall {
 public:
  RecordedCall(const Json& given, const Json& call, const ModuleTree& tree)
      : given_(given), call_(call), tree_(tree) {}

  FullyShardCall settings(const Fsdp2Mesh& mesh) const {
    FullyShardCall call{.modules = {}, .mesh = mesh};
    if (const Json* reshard = setting("reshard_after_forward"))
      call.reshard_after_forward = reshard_of(*reshard);
    if (const Json* mp = setting("mp")) call.precision = precision_of(*mp);
    for (std::size_t i = 0; i < tree_.parameters.size(); ++i) {
      if (tree_.parameters[i].same_as) continue;
      const auto id = static_cast<std::int32_t>(i);
      const std::string& name = tree_.parameters[i].name;
      if (const Json* ignored = setting("ignored_params"); ignored && matches_any(name, *ignored))
        call.ignored_parameters.insert(id);
      if (const Json* rules = setting("placement")) place(name, id, *rules, call);
    }
    return call;
  }

  void add_to(std::vector<FullyShardCall>& calls, FullyShardCall call) const {
    if (call_.contains("each")) {
      for (std::size_t i = 0; i < tree_.modules.size(); ++i) {
        if (tree_.modules[i].same_as || !matches_any(tree_.modules[i].name, call_.at("each")))
          continue;
        call.modules = {static_cast<std::int32_t>(i)};
        calls.push_back(call);
      }
      return;
    }
    call.list = call_.contains("list");
    if (!call.list) call.modules = {module_named(tree_, call_.at("one"))};
    if (call.list)
      for (const Json& name : call_.at("list")) call.modules.push_back(module_named(tree_, name));
    calls.push_back(std::move(call));
  }

 private:
  const Json* setting(const char* key) const {
    for (const Json* source : {&call_, &given_})
      if (source->contains(key)) return &source->at(key);
    return nullptr;
  }

  static void place(const std::string& name, std::int32_t id, const Json& rules,
                    FullyShardCall& call) {
    for (const Json& rule : rules)
      if (std::regex_match(name, std::regex(rule.at(0).get<std::string>()))) {
        call.shard_dims[id] = rule.at(1).get<int>();
        return;
      }
  }

  const Json& given_;
  const Json& call_;
  const ModuleTree& tree_;
};

RecordedPlan planned(const Json& given, const ModuleTree& tree, int world) {
  const Fsdp2Mesh mesh = recorded_mesh(given, world);
  std::vector<FullyShardCall> calls;
  for (const Json& entry : given.at("apply")) {
    const RecordedCall call(given, entry, tree);
    call.add_to(calls, call.settings(mesh));
  }
  return {.tree = tree, .plan = fully_shard(tree, calls, recorded_moment(given))};
}

Outcome check(const Json& recorded, const std::filesystem::path& folder, const Options& options) {
  const Json& given = recorded.at("case");
  const Json model = recorded_model(folder, given.at("model").get<std::string>());
  const ModuleTree tree = recorded_tree(model);
  return check_fsdp2_plans(
      recorded, model.at("spec"), [&](int world) { return planned(given, tree, world); }, options);
}

Json variant_of(const RecordedPlan& planned, const Json& given, const Json& spec, Json variant) {
  const int world = variant.at("world").get<int>();
  const std::vector<int> ranks = recorded_ranks(given, world);
  if (planned.plan.refused_at_first_forward)
    variant["run_error"] = error_row(*planned.plan.refused_at_first_forward);
  else if (given.value("lazy_init", true))
    variant["traffic"] = fsdp2_traffic(spec, planned.tree, planned.plan, world, ranks.front());
  variant["units"] = Json::array();
  for (const Fsdp2Group& group : planned.plan.groups)
    variant["units"].push_back(numbers_of(planned.tree, group, ranks));
  return variant;
}

}  // namespace

Fsdp2Moment recorded_moment(const Json& given) {
  return given.value("lazy_init", true) ? Fsdp2Moment::after_first_forward
                                        : Fsdp2Moment::constructed;
}

Fsdp2Mesh recorded_mesh(const Json& given, int world) {
  return fsdp2_mesh(given.value("mesh", std::vector<std::int64_t>{world}), world);
}

Outcome check_fsdp2_plans(const Json& recorded, const Json& spec,
                          const std::function<RecordedPlan(int)>& plan, const Options& options) {
  const Json& given = recorded.at("case");
  Json got{{"name", recorded.at("name")}, {"case", given}};
  Json layout, variants = Json::array();
  for (const int world : worlds_of(given)) {
    Json variant{{"world", world}};
    try {
      const RecordedPlan planned = plan(world);
      layout = Json::array();
      for (const Fsdp2Group& group : planned.plan.groups)
        layout.push_back(layout_of(planned.tree, group));
      variant = variant_of(planned, given, spec, std::move(variant));
    } catch (const Refusal& refusal) {
      variant["error"] = error_row(refusal);
    }
    variants.push_back(std::move(variant));
  }
  got["groups"] = layout;
  got["variants"] = variants;
  // Warnings that torch prints of a module's outputs while it runs are nothing that wrapping knows.
  Json expected = recorded;
  for (Json& variant : expected.at("variants")) variant.erase("warnings");
  return compared(expected, got, options);
}

FlatParametersFile fsdp2_recordings() {
  return {.name = "fsdp2",
          .fields = {"groups", "variants", "units", "ranks", "traffic", "error", "run_error"},
          .check = check};
}

}  // namespace shardscope::recordings
