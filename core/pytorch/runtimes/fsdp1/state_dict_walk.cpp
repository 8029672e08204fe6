#include "core/pytorch/runtimes/fsdp1/state_dict_walk.h"

#include "core/base/refusal.h"

namespace shardscope::eager::fsdp1 {

StateDictWalk::StateDictWalk(Session& s, FullySharded& model, StateDictType type)
    : s_(s), model_(model), type_(type) {
  for (const auto& unit : model.units()) {
    if (!unit->handle) continue;
    const auto add = [&](const ParameterPlace& place) {
      unit_of_parameter_[{place.module, place.at}] = unit.get();
    };
    for (const ParameterPlace& place : unit->handle->places()) add(place);
    for (const FlatHandle::Alias& alias : unit->handle->aliases()) add(alias.place);
  }
}

StateDictType StateDictWalk::type_of(const Unit& unit) const {
  return unit.plan.strategy == ShardingStrategy::no_shard ? StateDictType::full : type_;
}

bool StateDictWalk::unshards(const Unit& unit) {
  return unit.plan.strategy != ShardingStrategy::no_shard ||
         !unit.shared.options.use_original_parameters;
}

void StateDictWalk::check(const Unit& unit) const {
  if (type_of(unit) == StateDictType::local && model_.groups().of_mesh)
    throw Refusal("RuntimeError", "LOCAL_STATE_DICT does not go with a device mesh");
}

bool StateDictWalk::is_registered(const Module& module, std::size_t parameter) const {
  const Module::NamedTensor& named = module.parameters[parameter];
  if (!named.tensor || named.name == flat_parameter_attribute) return false;
  const auto unit = unit_of_parameter_.find({&module, parameter});
  if (unit == unit_of_parameter_.end() || unit->second->shared.options.use_original_parameters)
    return true;
  const auto context = contexts_.find(unit->second);
  return context != contexts_.end() && context->second->has_parameters();
}

void StateDictWalk::open(const Unit& unit, std::unique_ptr<UnshardedUnit> context) {
  contexts_[&unit] = std::move(context);
}

void StateDictWalk::close(const Unit& unit) {
  const auto context = contexts_.find(&unit);
  if (context == contexts_.end()) return;
  context->second->leave(s_);
  contexts_.erase(context);
}

std::vector<std::string> parameter_names(const Unit& unit) {
  std::vector<std::string> names;
  if (!unit.handle) return names;
  for (const Fsdp1Unit::Parameter& parameter : unit.plan.parameters)
    names.push_back(parameter.name);
  for (const Fsdp1Unit::Alias& alias : unit.plan.aliases) names.push_back(alias.name);
  return names;
}

std::string joined_name(const std::string& prefix, const std::string& own) {
  return prefix.empty() ? own : prefix + "." + own;
}

std::string flat_parameter_name(const Unit& unit) {
  return joined_name(unit.plan.module, flat_parameter_attribute);
}

}  // namespace shardscope::eager::fsdp1
