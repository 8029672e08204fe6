#include "core/pytorch/runtimes/fsdp1/fully_sharded.h"

#include <algorithm>
#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/fsdp1/module_places.h"
#include "core/pytorch/runtimes/fsdp1/module_states.h"
#include "core/pytorch/runtimes/fsdp1/passes.h"

namespace shardscope::eager::fsdp1 {
namespace {

/// DefaultState._get_gradient_predivide_factor: a power of two near the root of the world.
double predivide_factor(int world) {
  int factor = 1;
  while (world % factor == 0 && world / factor > factor) factor *= 2;
  return factor;
}

/// Indices of units in the order in which their wrappers are made: those inside a module first.
std::vector<std::size_t> construction_order(const std::vector<Fsdp1Unit>& units) {
  std::vector<std::size_t> order;
  std::vector<std::size_t> open;
  const auto lies_in = [&](std::size_t inner, std::size_t outer) {
    const std::string& name = units[outer].module;
    return name.empty() || units[inner].module.starts_with(name + ".");
  };
  for (std::size_t i = 0; i < units.size(); ++i) {
    for (; !open.empty() && !lies_in(i, open.back()); open.pop_back()) order.push_back(open.back());
    open.push_back(i);
  }
  order.insert(order.end(), open.rbegin(), open.rend());
  return order;
}

std::size_t index_of(const Fsdp1Unit& unit, const std::string& name) {
  const auto found = std::find_if(unit.parameters.begin(), unit.parameters.end(),
                                  [&](const auto& parameter) { return parameter.name == name; });
  return static_cast<std::size_t>(found - unit.parameters.begin());
}

}  // namespace

FullySharded::FullySharded(Session& s, Input input)
    : plan_(std::move(input.plan)),
      groups_(input.groups),
      shared_{.options = input.options, .watchers = std::move(input.watchers)},
      root_(std::move(input.module)) {
  for (const auto& [name, buffer] : named_buffers_of(*root_))
    shared_.buffers.push_back({name, buffer, buffer.dtype()});
  for (const Fsdp1Unit& plan : plan_.units) {
    const bool hybrid = is_hybrid(plan.strategy);
    const ProcessGroup& group = hybrid ? *groups_.shard : *groups_.all;
    const int world = group.size() * (hybrid ? groups_.replicas->size() : 1);
    const double before = predivide_factor(world);
    // NOLINTNEXTLINE(modernize-make-unique): it has no constructor
    units_.push_back(std::unique_ptr<Unit>(new Unit{.shared = shared_,
                                                    .plan = plan,
                                                    .precision = {},
                                                    .group = group,
                                                    .replicas = hybrid ? groups_.replicas : nullptr,
                                                    .divide_before = before,
                                                    .divide_after = world / before}));
    shared_.units.push_back(units_.back().get());
  }
  const ModulePlaces places(*root_);
  for (const std::size_t i : construction_order(plan_.units)) {
    const Fsdp1Unit& plan = plan_.units[i];
    Slot slot{.module = plan.module.empty() ? &root_ : places.modules.at(plan.module)};
    for (const Fsdp1Unit::Parameter& parameter : plan.parameters)
      slot.places.push_back(places.parameters.at(parameter.name));
    for (const Fsdp1Unit::Alias& alias : plan.aliases)
      slot.aliases.push_back({places.parameters.at(alias.name), index_of(plan, alias.first)});
    wrap(s, *units_[i], slot);
  }
}

FullySharded::~FullySharded() = default;

/// A policy may give a unit no mixed precision, which its plan shows.
Precision FullySharded::precision_of(const Fsdp1Unit& unit, Dtype original) const {
  const Precision& precision = shared_.options.precision;
  const bool has_it = unit.compute_dtype == precision.parameters.value_or(original);
  return has_it ? precision : Precision{};
}

void FullySharded::wrap(Session& s, Unit& unit, Slot& slot) {
  std::shared_ptr<Module> inner = *slot.module;
  unit.precision = shared_.options.precision;
  if (!slot.places.empty()) make_handle(s, unit, slot);
  auto wrapper = std::make_shared<Module>();
  wrapper->name = inner->name;
  wrapper->class_name = wrapper_class;
  wrapper->training = inner->training;
  wrapper->children.push_back({"_fsdp_wrapped_module", std::move(inner)});
  wrapper->forward = [&unit](Session& session, Module&, const Arguments& arguments) {
    return forward(session, unit, arguments);
  };
  unit.wrapper = wrapper.get();
  *slot.module = std::move(wrapper);
}

void FullySharded::make_handle(Session& s, Unit& unit, Slot& slot) {
  Module& module = **slot.module;
  move_to_device(s, module);
  // The original parameters live until the constructor returns.
  Tensors managed;
  for (const ParameterPlace& place : slot.places) managed.push_back(place.tensor());
  unit.precision = precision_of(unit.plan, managed.front().dtype());
  if (shared_.options.sync_module_states) sync_module_states(s, unit, module, managed);
  unit.handle = std::make_unique<FlatHandle>(s, unit,
                                             FlatHandle::Input{.places = std::move(slot.places),
                                                               .aliases = std::move(slot.aliases),
                                                               .fully_sharded_module = &module});
  unit.handle->shard(s);
  if (shared_.options.offload_parameters && unit.handle->flat().device() != Device::cpu)
    unit.handle->move_to(s, Device::cpu, false);
  if (!shared_.options.use_original_parameters)
    module.parameters.push_back({.name = flat_parameter_attribute, .tensor = unit.handle->flat()});
  // A list of Python's lets go of its items from the end.
  while (!managed.empty()) managed.pop_back();
}

Unit* FullySharded::unit_of(const Module& wrapper) const {
  for (const auto& unit : units_)
    if (unit->wrapper == &wrapper) return unit.get();
  return nullptr;
}

bool FullySharded::has_sharded_units() const {
  return std::any_of(units_.begin(), units_.end(), [](const auto& unit) {
    return unit->handle && unit->handle->is_sharded_strategy();
  });
}

Tensors FullySharded::parameters() const {
  Tensors all;
  if (shared_.options.use_original_parameters)
    for (const NamedParameter& parameter : named_parameters_of(*root_))
      all.push_back(parameter.tensor());
  else
    for (const auto& unit : units_)
      if (unit->handle) all.push_back(unit->handle->flat());
  return all;
}

void FullySharded::begin_no_sync(Session& s) {
  lazy_init(s, shared_);
  set_sync_gradients(false);
}

void FullySharded::end_no_sync() { set_sync_gradients(true); }

void FullySharded::set_sync_gradients(bool on) {
  for (const auto& unit : units_) unit->sync_gradients = on;
}

}  // namespace shardscope::eager::fsdp1
