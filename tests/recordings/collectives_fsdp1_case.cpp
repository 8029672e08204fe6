#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/recordings/collectives_fsdp1.h"
#include "tests/recordings/fsdp1_case.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using namespace eager;

std::string shown(const std::string& name) { return name.empty() ? "root" : name; }

const Json& settings_of(const Json& given) { return given.at("fsdp1"); }

bool has(const Json& object, const char* key) {
  return object.contains(key) && !object.at(key).is_null();
}

std::optional<Dtype> dtype_of(const Json& mp, const char* key) {
  if (!has(mp, key)) return std::nullopt;
  return parse_dtype(mp.at(key).get<std::string>(), key);
}

CustomWrap wrap_of(const Json& settings, const std::vector<std::string>& units) {
  const Json options = settings.value("unit_options", Json::object());
  CustomWrap wrap;
  for (const std::string& name : units) {
    CustomUnit unit{.module = name, .strategy = {}, .use_original_parameters = {}};
    const Json own = options.value(name, Json::object());
    if (own.contains("sharding_strategy"))
      unit.strategy = torch_strategy(own.at("sharding_strategy").get<std::string>());
    wrap.units.push_back(std::move(unit));
  }
  return wrap;
}

std::int32_t place_of(std::map<const void*, std::int32_t>& known, const void* object,
                      std::size_t place) {
  return known.emplace(object, static_cast<std::int32_t>(place)).first->second;
}

/// Walks as ModuleTree is ordered: pre-order, aliases too.
class TreeBuilder {
 public:
  ModuleTree build(eager::Module& root) {
    add(root, "", -1);
    return std::move(tree_);
  }

 private:
  std::int32_t add(eager::Module& module, const std::string& name, std::int32_t parent) {
    const std::size_t place = tree_.modules.size();
    tree_.modules.push_back({.name = name,
                             .class_name = module.class_name,
                             .bases = {},
                             .parameters = {},
                             .children = {},
                             .parent = parent,
                             .same_as = {}});
    if (const auto first = place_of(modules_, &module, place); first != std::int32_t(place))
      tree_.modules[place].same_as = first;
    for (const auto& own : module.parameters)
      if (own.tensor) add_parameter(own, name, place);
    for (const auto& child : module.children) {
      const auto at = add(*child.module, name.empty() ? child.name : name + "." + child.name,
                          static_cast<std::int32_t>(place));
      tree_.modules[place].children.push_back(at);
    }
    return static_cast<std::int32_t>(place);
  }

  void add_parameter(const eager::Module::NamedTensor& own, const std::string& name,
                     std::size_t module) {
    const std::size_t place = tree_.parameters.size();
    TreeParameter parameter{.name = name.empty() ? own.name : name + "." + own.name,
                            .shape = {own.tensor.sizes().begin(), own.tensor.sizes().end()},
                            .dtype = own.tensor.dtype(),
                            .trainable = own.tensor.requires_grad(),
                            .same_as = {}};
    const auto first = place_of(parameters_, own.tensor.impl(), place);
    if (first != std::int32_t(place)) parameter.same_as = first;
    tree_.parameters.push_back(std::move(parameter));
    tree_.modules[module].parameters.push_back(static_cast<std::int32_t>(place));
  }

  ModuleTree tree_;
  std::map<const void*, std::int32_t> modules_, parameters_;  // looked up, never walked
};

Json parameter_rows(const fsdp1::Unit& unit) {
  Json rows = Json::array();
  const std::string prefix = unit.plan.module.empty() ? "" : unit.plan.module + ".";
  for (std::size_t i = 0; i < unit.plan.parameters.size(); ++i)
    rows.push_back(Json::array(
        {unit.plan.parameters[i].name.substr(prefix.size()), unit.handle->shape(i).span()}));
  return rows;
}

}  // namespace

ModuleTree module_tree_of(eager::Module& root) { return TreeBuilder().build(root); }

std::vector<std::string> fsdp1_units(const Json& given, const std::vector<std::string>& blocks) {
  const Json& settings = settings_of(given);
  std::vector<std::string> units = settings.value("units", blocks);
  for (const Json& more : settings.value("more_units", Json::array()))
    units.push_back(more.get<std::string>());
  return units;
}

Fsdp1Plan fsdp1_plan(const Json& given, const ModuleTree& tree,
                     const std::vector<std::string>& units, int rank) {
  const Json& settings = settings_of(given);
  Fsdp1Settings wanted;
  wanted.world = given.at("world").get<int>();
  wanted.strategy = torch_strategy(settings.value("strategy", "FULL_SHARD"));
  wanted.use_original_parameters = settings.value("use_orig_params", false);
  if (has(settings, "mp"))
    wanted.mixed_precision =
        MixedPrecision{.parameters = dtype_of(settings.at("mp"), "param_dtype"),
                       .reduction = dtype_of(settings.at("mp"), "reduce_dtype")};
  if (has(settings, "hybrid"))
    wanted.mesh = Mesh{.replicate = settings.at("hybrid").at(0).get<int>(),
                       .shard = settings.at("hybrid").at(1).get<int>()};
  wanted.auto_wrap = wrap_of(settings, units);
  return plan_fsdp1(tree, wanted, rank);
}

fsdp1::Options fsdp1_options(const Json& given) {
  const Json& settings = settings_of(given);
  fsdp1::Options options{.forward_prefetch = settings.value("forward_prefetch", false),
                         .limit_all_gathers = settings.value("limit_all_gathers", true),
                         .use_original_parameters = settings.value("use_orig_params", false),
                         .sync_module_states = settings.value("sync_module_states", false)};
  const Json prefetch = settings.value("backward_prefetch", Json("BACKWARD_PRE"));
  options.backward_prefetch = prefetch.is_null()            ? fsdp1::BackwardPrefetch::none
                              : prefetch == "BACKWARD_POST" ? fsdp1::BackwardPrefetch::post
                                                            : fsdp1::BackwardPrefetch::pre;
  if (!has(settings, "mp")) return options;
  const Json& mp = settings.at("mp");
  options.precision = {.parameters = dtype_of(mp, "param_dtype"),
                       .reduction = dtype_of(mp, "reduce_dtype"),
                       .buffers = dtype_of(mp, "buffer_dtype"),
                       .keep_low_precision_gradients = mp.value("keep_low_precision_grads", false),
                       .cast_forward_inputs = mp.value("cast_forward_inputs", false),
                       .cast_root_forward_inputs = mp.value("cast_root_forward_inputs", true)};
  return options;
}

fsdp1::Groups fsdp1_groups(const Json& given, ProcessGroups& groups) {
  const Json& settings = settings_of(given);
  if (!has(settings, "hybrid")) return {.world = &groups.world(), .all = &groups.world()};
  const auto shape = settings.at("hybrid").get<std::vector<int>>();
  if (settings.value("hybrid_as", "mesh") != "groups") {
    const auto mesh = groups.mesh(shape);
    return {.world = &groups.world(),
            .all = mesh[0],
            .shard = mesh[1],
            .replicas = mesh[0],
            .of_mesh = true};
  }
  fsdp1::Groups made{.world = &groups.world(), .all = &groups.world()};
  const auto add = [&](int first, int stride, int count) -> const ProcessGroup* {
    const ProcessGroup& group =
        groups.add(Ranks::spaced(first, stride, static_cast<std::size_t>(count)));
    return group.rank < 0 ? nullptr : &group;
  };
  for (int a = 0; a < shape[0]; ++a)
    if (const auto* group = add(a * shape[1], 1, shape[1])) made.shard = group;
  for (int b = 0; b < shape[1]; ++b)
    if (const auto* group = add(b, shape[1], shape[0])) made.replicas = group;
  return made;
}

Json described(const fsdp1::FullySharded& model) {
  Json rows = Json::array();
  for (const auto& unit : model.units()) {
    if (!unit->handle) {
      rows.push_back({{"unit", shown(unit->plan.module)}, {"params", Json::array()}});
      continue;
    }
    const FlatParameter& flat = unit->plan.flat;
    // Before lazy initialization the library knows no padded size.
    rows.push_back({{"unit", shown(unit->plan.module)},
                    {"strategy", torch_name(unit->plan.strategy)},
                    {"params", parameter_rows(*unit)},
                    {"unpadded_numel", flat.unpadded_elements},
                    {"padded_numel", flat.unpadded_elements},
                    {"shard_numel", unit->handle->flat().numel()},
                    {"shard_world", unit->group.size()},
                    {"dtype", name_of(unit->handle->flat().dtype())},
                    {"compute_dtype", name_of(unit->plan.compute_dtype)},
                    {"reduce_dtype", name_of(unit->plan.reduce_dtype)},
                    {"divide", Json::array({unit->divide_before, unit->divide_after})}});
  }
  return rows;
}

}  // namespace shardscope::recordings
