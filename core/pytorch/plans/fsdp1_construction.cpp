#include "core/pytorch/plans/fsdp1_construction.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/refusal.h"
#include "core/pytorch/plans/fsdp1_frozen.h"

namespace shardscope {
namespace {

std::string in_quotes(std::string_view module) {
  return module.empty() ? "the root module" : fmt::format("module \"{}\"", module);
}

bool is_floating_point(Dtype dtype) {
  return dtype == Dtype::float64 || dtype == Dtype::float32 || dtype == Dtype::float16 ||
         dtype == Dtype::bfloat16;
}

Refusal refused(std::string exception, std::string where, std::string what, std::string way_out) {
  return {std::move(exception),
          {.where = std::move(where), .what = std::move(what), .way_out = std::move(way_out)}};
}

}  // namespace

Fsdp1Construction::Fsdp1Construction(const ModuleTree& tree, const Fsdp1Settings& settings,
                                     int rank)
    : settings_(settings), rank_(rank), graph_(tree) {
  if (!settings.ignored_modules.empty() && !settings.ignored_parameters.empty())
    throw refused("ValueError", "ignored modules",
                  "FSDP takes ignored modules or ignored parameters, not both",
                  "name the parameters of the modules among the parameters");
  for (const std::string& name : settings.ignored_modules)
    for (const NodeId module : graph_.modules(graph_.find(name, "ignored modules"))) {
      ignored_modules_.insert(module);
      for (const ModuleNode::Slot& slot : graph_[module].parameters)
        ignored_parameters_.insert(slot.parameter);
    }
  for (const std::string& name : settings.ignored_parameters)
    ignored_parameters_.insert(graph_.find_parameter(name, "ignored parameters"));
}

Fsdp1Plan Fsdp1Construction::run() {
  for (const std::string& name : settings_.wrapped_by_hand) wrap_by_hand(name);
  const bool has_policy = !std::holds_alternative<NoWrap>(settings_.auto_wrap);
  const NodeId root =
      construct(graph_.root(), root_arguments(), has_policy ? &settings_.auto_wrap : nullptr);
  for (const NodeId module : graph_.modules(root))
    if (graph_[module].is_wrapper()) plan_.units.push_back(std::move(units_.at(module)));
  return std::move(plan_);
}

void Fsdp1Construction::wrap_by_hand(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  const std::string last = name.substr(dot + 1);
  NodeId parent = graph_.root();
  std::string_view path =
      dot == std::string::npos ? std::string_view() : std::string_view(name).substr(0, dot);
  while (parent && !path.empty()) {
    const std::size_t end = std::min(path.find('.'), path.size());
    parent = graph_.child(parent, path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  const NodeId module = parent ? graph_.child(parent, last) : NodeId();
  if (!module)
    throw refused("AttributeError", "units by hand",
                  fmt::format("the model has no module \"{}\"", name),
                  "give its full name, as named_modules() does");
  if (graph_[module].is_wrapper())
    throw Error({.where = "units by hand",
                 .what = fmt::format("module \"{}\" is listed twice", name),
                 .way_out = "list every module once"});
  graph_.set_child(parent, last, construct(module, root_arguments(), nullptr));
}

NodeId Fsdp1Construction::construct(NodeId module, const Arguments& arguments,
                                    const AutoWrap* policy) {
  if (is_ignored(module)) warn(Fsdp1Warning::Kind::whole_unit_ignored, graph_.module(module).name);
  const Group group = group_of(arguments, policy != nullptr);
  if (policy != nullptr) auto_wrap(*policy);
  Fsdp1Unit unit{.module = graph_.module(module).name,
                 .class_name = graph_.module(module).class_name,
                 .strategy = arguments.strategy,
                 .group_ranks = group.ranks,
                 .group_stride = group.stride};
  if (group.ranks == 1 && arguments.strategy != ShardingStrategy::no_shard) {
    warn(Fsdp1Warning::Kind::no_shard_for_one_rank, std::string(name_of(arguments.strategy)));
    unit.strategy = ShardingStrategy::no_shard;
  }
  if (const auto managed = managed_parameters(module); !managed.empty())
    flatten(module, managed, arguments, unit);
  const NodeId wrapper = graph_.add_wrapper();
  graph_.set_child(wrapper, "", module);
  units_.emplace(wrapper, std::move(unit));
  return wrapper;
}

Fsdp1Construction::Group Fsdp1Construction::group_of(const Arguments& arguments,
                                                     bool has_policy) const {
  const bool root_is_hybrid = is_hybrid(settings_.strategy);
  if (settings_.mesh) {
    const Mesh& mesh = *settings_.mesh;
    // Whatever its name says, the first axis is the one that strategies which are not hybrid take.
    return is_hybrid(arguments.strategy) ? Group{mesh.shard, 1} : Group{mesh.replicate, mesh.shard};
  }
  if (!is_hybrid(arguments.strategy)) {
    if (arguments.chosen_by_policy && root_is_hybrid)
      throw refused("AttributeError", std::string(name_of(arguments.strategy)),
                    "a unit cannot leave hybrid sharding where the root shares its two groups",
                    "give a device mesh");
    return {settings_.world, 1};
  }
  if (!has_policy && !(arguments.chosen_by_policy && root_is_hybrid))
    throw refused("ValueError", std::string(name_of(arguments.strategy)),
                  "units wrapped one by one cannot know that they share their groups of ranks",
                  "give a device mesh, or let a policy wrap");
  return group_within_node();
}

Fsdp1Construction::Group Fsdp1Construction::group_within_node() const {
  const int ranks = settings_.ranks_per_node;
  if (ranks < 1 || settings_.world % ranks != 0)
    throw refused("ValueError", "ranks per node",
                  fmt::format("{} ranks do not make whole nodes of {}", settings_.world, ranks),
                  "give a device mesh, or ranks that fill every node");
  return {ranks, 1};
}

void Fsdp1Construction::auto_wrap(const AutoWrap& policy) {
  refuse_nested_wrapping();
  if (chooses_beforehand(policy)) return wrap_chosen(policy);
  const bool mixed = settings_.mixed_precision.has_value();
  if (mixed) leave_out_batch_norm();
  const WrapPolicyFunction function(policy, graph_, mixed);
  if (function.enters(graph_.root(), countable_elements(graph_.root())))
    wrap_children(graph_.root(), function);
}

void Fsdp1Construction::refuse_nested_wrapping() {
  for (const NodeId module : graph_.modules(graph_.root()))
    if (graph_[module].is_wrapper())
      throw refused("ValueError", in_quotes(units_.at(module).module),
                    "is wrapped already, and a policy may not wrap around it",
                    "wrap all units by hand, or leave all to the policy");
}

void Fsdp1Construction::leave_out_batch_norm() {
  std::set<std::string> classes;
  for (const NodeId module : graph_.modules(graph_.root()))
    if (graph_.module(module).is(batch_norm_class))
      classes.insert(graph_.module(module).class_name);
  batch_norm_in_full_ = true;
  if (!classes.empty())
    warn(Fsdp1Warning::Kind::batch_norm_in_full, fmt::format("{}", fmt::join(classes, ", ")));
}

// --- Policies that choose beforehand
// --------------------------------------------------------------

void Fsdp1Construction::wrap_chosen(const AutoWrap& policy) {
  std::map<NodeId, Arguments> chosen = chosen_modules(policy);
  if (settings_.mixed_precision) {
    for (const NodeId module : graph_.modules(graph_.root()))
      if (!is_ignored(module) && graph_.module(module).is(batch_norm_class))
        chosen.try_emplace(module, root_arguments()).first->second.mixed_precision.reset();
    leave_out_batch_norm();
  }
  for (auto& [module, arguments] : chosen) arguments.chosen_by_policy = true;
  check_frozen(chosen);
  std::set<NodeId> visited{graph_.root()};
  wrap_post_order(graph_.root(), chosen, visited);
}

std::map<NodeId, Fsdp1Construction::Arguments> Fsdp1Construction::chosen_modules(
    const AutoWrap& policy) {
  std::map<NodeId, Arguments> chosen;
  if (const auto* custom = std::get_if<CustomWrap>(&policy)) {
    for (const CustomUnit& unit : custom->units) {
      const NodeId module = graph_.find(unit.module, "modules to wrap");
      if (is_ignored(module)) continue;
      Arguments arguments = root_arguments();
      arguments.strategy = unit.strategy.value_or(arguments.strategy);
      arguments.use_original_parameters =
          unit.use_original_parameters.value_or(arguments.use_original_parameters);
      if (unit.without_mixed_precision) arguments.mixed_precision.reset();
      chosen.emplace(module, arguments);
    }
    return chosen;
  }
  for (const NodeId module : graph_.modules(graph_.root())) {
    const auto& classes = std::get<ClassWrap>(policy).classes;
    const bool matches = std::any_of(classes.begin(), classes.end(), [&](const std::string& name) {
      return graph_.module(module).is(name);
    });
    if (matches && !is_ignored(module)) chosen.emplace(module, root_arguments());
  }
  return chosen;
}

void Fsdp1Construction::check_frozen(const std::map<NodeId, Arguments>& chosen) {
  std::set<NodeId> modules;
  for (const auto& [module, arguments] : chosen) modules.insert(module);
  const auto ignored = [&](HeldParameterId id) { return is_ignored(id); };
  for (const NodeId module : units_partly_frozen(graph_, modules, ignored)) {
    const std::string& name = graph_.module(module).name;
    if (!settings_.use_original_parameters)
      throw refused("ValueError", in_quotes(name),
                    "some of its parameters are frozen and others are not",
                    "wrap the frozen ones on their own, or turn on use_orig_params");
    warn(Fsdp1Warning::Kind::mixed_trainable, name);
  }
}

/// _post_order_apply: a module that is shared is met, and replaced, under its first parent only.
void Fsdp1Construction::wrap_post_order(NodeId module, const std::map<NodeId, Arguments>& chosen,
                                        std::set<NodeId>& visited) {
  for (const ModuleGraph::PlacedChild& child : graph_.named_children(module)) {
    if (!visited.insert(child.node).second) continue;
    wrap_post_order(child.node, chosen, visited);
    if (const auto found = chosen.find(child.node); found != chosen.end())
      graph_.replace_child(module, child.place, construct(child.node, found->second, nullptr));
  }
}

// --- Policies that are asked about one module after the other
// -------------------------------------

/// Returns the elements wrapped below `module`.
std::int64_t Fsdp1Construction::wrap_children(NodeId module, const WrapPolicyFunction& policy) {
  std::int64_t wrapped = 0;
  for (const ModuleGraph::PlacedChild& child : graph_.named_children(module)) {
    if (is_ignored(child.node)) continue;
    const auto [replacement, elements] = wrap_recursively(child.node, policy);
    graph_.replace_child(module, child.place, replacement);
    wrapped += elements;
  }
  return wrapped;
}

std::pair<NodeId, std::int64_t> Fsdp1Construction::wrap_recursively(
    NodeId module, const WrapPolicyFunction& policy) {
  for (const NodeId below : graph_.modules(module))
    if (graph_[below].is_wrapper())
      throw refused("AssertionError", in_quotes(graph_.module(module).name),
                    "holds a unit already, for it is shared with a module wrapped before",
                    "wrap the shared module's parents instead");
  const std::int64_t elements = countable_elements(module);
  if (!policy.enters(module, elements)) return {module, 0};
  const std::int64_t wrapped = wrap_children(module, policy);
  if (!policy.wraps(module, elements - wrapped)) return {module, wrapped};
  Arguments arguments = root_arguments();
  arguments.chosen_by_policy = true;
  if (batch_norm_in_full_ && graph_.module(module).is(batch_norm_class))
    arguments.mixed_precision.reset();
  return {construct(module, arguments, nullptr), elements};
}

std::int64_t Fsdp1Construction::countable_elements(NodeId module) {
  std::int64_t elements = 0;
  for (const HeldParameterId id : graph_.parameters(module)) {
    if (is_ignored(id)) continue;
    const HeldParameter& held = graph_[id];
    elements += held.elements;
    if (held.sharded && std::holds_alternative<SizeWrap>(settings_.auto_wrap))
      plan_.may_differ_between_ranks = true;
  }
  return elements;
}

// --- Flattening
// -----------------------------------------------------------------------------------

std::vector<HeldParameterId> Fsdp1Construction::managed_parameters(NodeId module) {
  std::vector<HeldParameterId> managed = graph_.parameters(module);
  std::erase_if(managed,
                [&](HeldParameterId id) { return is_ignored(id) || graph_[id].flattened; });
  for (const HeldParameterId id : managed)
    if (source_of(id).shape.empty())
      throw refused("ValueError", source_of(id).name, "FSDP cannot shard a scalar parameter",
                    "make it one-dimensional with one element, or ignore it");
  return managed;
}

void Fsdp1Construction::flatten(NodeId module, const std::vector<HeldParameterId>& managed,
                                const Arguments& arguments, Fsdp1Unit& unit) {
  set_dtypes(managed, arguments, unit);
  const auto slots = name_parameters(module, managed, unit);
  std::vector<std::int64_t> elements;
  for (const Fsdp1Unit::Parameter& parameter : unit.parameters)
    elements.push_back(graph_[graph_.held(parameter.source)].elements);
  if (arguments.use_original_parameters)
    unit.alignment_elements = 16 / size_of(unit.compute_dtype).count;
  unit.flat = lay_out({.parameter_elements = elements,
                       .alignment_elements = unit.alignment_elements,
                       .ranks = unit.group_ranks,
                       .sharded = unit.strategy != ShardingStrategy::no_shard});
  if (unit.flat.unpadded_elements == 0)
    throw refused("AssertionError", in_quotes(unit.module), "its unit has no elements to shard",
                  "leave its empty parameters to a unit that has others, or ignore them");
  arguments.use_original_parameters ? shard_parameters(unit) : hide_parameters(module, slots, unit);
}

void Fsdp1Construction::set_dtypes(const std::vector<HeldParameterId>& managed,
                                   const Arguments& arguments, Fsdp1Unit& unit) const {
  const TreeParameter& first = source_of(managed.front());
  const Dtype dtype = first.dtype;
  unit.trainable = false;
  for (const HeldParameterId id : managed) {
    const TreeParameter& parameter = source_of(id);
    if (!is_floating_point(dtype))
      throw refused("ValueError", parameter.name,
                    fmt::format("FSDP cannot flatten {}", name_of(dtype)), "ignore it");
    if (parameter.dtype != dtype)
      throw refused("ValueError", in_quotes(unit.module),
                    fmt::format("its unit holds {} ({}) and {} ({})", first.name, name_of(dtype),
                                parameter.name, name_of(parameter.dtype)),
                    "wrap them apart, or convert one");
    if (!arguments.use_original_parameters && parameter.trainable != first.trainable)
      throw refused("ValueError", in_quotes(unit.module),
                    fmt::format("of {} and {} only one is frozen", first.name, parameter.name),
                    "wrap the frozen ones on their own, or turn on use_orig_params");
    unit.trainable = unit.trainable || parameter.trainable;
  }
  const MixedPrecision precision = arguments.mixed_precision.value_or(MixedPrecision{});
  unit.compute_dtype = precision.parameters.value_or(dtype);
  unit.reduce_dtype = precision.reduction.value_or(unit.compute_dtype);
}

/// Fills in the unit's parameters and aliases; returns where they stand.
std::vector<std::pair<NodeId, HeldParameterId>> Fsdp1Construction::name_parameters(
    NodeId module, const std::vector<HeldParameterId>& managed, Fsdp1Unit& unit) {
  const std::string prefix = unit.module.empty() ? std::string() : unit.module + ".";
  const std::set<HeldParameterId> to_flatten(managed.begin(), managed.end());
  std::map<HeldParameterId, std::string> first_names;
  std::vector<std::pair<NodeId, HeldParameterId>> slots;
  graph_.visit_slots(module, [&](NodeId holder, const std::string& name, HeldParameterId id) {
    if (!to_flatten.contains(id)) return;
    slots.emplace_back(holder, id);
    const auto [first, added] = first_names.try_emplace(id, prefix + name);
    if (added)
      unit.parameters.push_back({.name = first->second, .source = graph_[id].source});
    else
      unit.aliases.push_back({.name = prefix + name, .first = first->second});
  });
  return slots;
}

/// use_orig_params=False: the parameters leave their modules. Where they stand in modules outside
/// the unit they stay as they were.
void Fsdp1Construction::hide_parameters(
    NodeId module, const std::vector<std::pair<NodeId, HeldParameterId>>& slots,
    const Fsdp1Unit& unit) {
  for (const auto& [holder, id] : slots) graph_.remove_parameter(holder, id);
  graph_.set_parameter(module, "_flat_param", graph_.add_flat_parameter(unit.flat.shard_elements));
}

/// use_orig_params=True: the parameters stay, and hold what of them lies in this rank's shard.
void Fsdp1Construction::shard_parameters(const Fsdp1Unit& unit) {
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    HeldParameter& held = graph_[graph_.held(unit.parameters[i].source)];
    const auto part = part_of(unit.flat, i, unit.shard_of(rank_));
    held.elements = part ? part->elements : 0;
    held.flattened = true;
    held.sharded = unit.flat.shards > 1;
  }
}

const TreeParameter& Fsdp1Construction::source_of(HeldParameterId id) const {
  return graph_.tree().parameters[static_cast<std::size_t>(graph_[id].source)];
}

Fsdp1Construction::Arguments Fsdp1Construction::root_arguments() const {
  return {.strategy = settings_.strategy,
          .use_original_parameters = settings_.use_original_parameters,
          .mixed_precision = settings_.mixed_precision};
}

void Fsdp1Construction::warn(Fsdp1Warning::Kind kind, std::string subject) {
  Fsdp1Warning warning{.kind = kind, .subject = std::move(subject)};
  if (std::find(plan_.warnings.begin(), plan_.warnings.end(), warning) == plan_.warnings.end())
    plan_.warnings.push_back(std::move(warning));
}

}  // namespace shardscope
