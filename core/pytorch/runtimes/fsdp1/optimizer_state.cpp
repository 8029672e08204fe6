#include "core/pytorch/runtimes/fsdp1/optimizer_state.h"

#include <algorithm>
#include <map>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/common/object_collectives.h"
#include "core/pytorch/runtimes/fsdp1/optimizer_state_gather.h"
#include "core/pytorch/runtimes/fsdp1/passes.h"

namespace shardscope::eager::fsdp1 {
namespace {

bool has_state(const OptimizerState& state) {
  return std::any_of(std::begin(named_states), std::end(named_states),
                     [&](const NamedState& named) { return (state.*named.member).defined(); });
}

/// The optimizer's state of a parameter; null: none.
const OptimizerState* state_of(const ParameterOptimizer& optimizer, const Tensor& parameter) {
  for (std::size_t i = 0; i < optimizer.parameters().size(); ++i)
    if (optimizer.parameters()[i].is(parameter))
      return has_state(optimizer.states()[i]) ? &optimizer.states()[i] : nullptr;
  return nullptr;
}

/// _map_param_key_to_optim_keys: rank 0's keys, which every rank checks that it has.
void agree_on_flat_parameters(Session& s, const ProcessGroup& world) {
  broadcast_object_list(s, world);
  all_reduce(s, world, empty(s, {1}, {.dtype = Dtype::int32, .device = s.settings.device}), "SUM");
}

StateDict of_flat_parameters(Session& s, const FullySharded& model,
                             const ParameterOptimizer& optimizer,
                             const OptimizerStateOptions& options, bool saves) {
  const Shared& shared = model.units().front()->shared;
  agree_on_flat_parameters(s, *model.groups().world);
  const Visiting visiting(s, shared, {.site = Site::convert_state_with_flat_parameters});
  StateDict saved;
  for (std::size_t i = 0; i < optimizer.parameters().size(); ++i) {
    if (!has_state(optimizer.states()[i])) continue;
    for (const auto& unit : model.units())
      if (unit->handle && unit->handle->flat().is(optimizer.parameters()[i]))
        gather_flat_state(s, {*unit, options, saves}, optimizer.states()[i], saved);
  }
  return saved;
}

struct UnitStates {
  const Unit* unit;
  std::vector<const OptimizerState*> states;  ///< in flat order
};

/// Units in the order of the first of their parameters by name, as a sorted set of keys has them.
std::map<std::string, UnitStates> units_with_states(const FullySharded& model,
                                                    const ParameterOptimizer& optimizer) {
  std::map<std::string, UnitStates> units;
  for (const auto& unit : model.units()) {
    if (!unit->handle || !unit->handle->progress.got_gradient) continue;
    UnitStates own{unit.get(), {}};
    std::string first;
    for (std::size_t i = 0; i < unit->handle->parameters().size(); ++i) {
      const Tensor& parameter = unit->handle->parameters()[i];
      own.states.push_back(state_of(optimizer, parameter));
      const std::string& name = unit->plan.parameters[i].name;
      if (parameter.requires_grad() && (first.empty() || name < first)) first = name;
    }
    units.emplace(first, std::move(own));
  }
  return units;
}

StateDict of_original_parameters(Session& s, const FullySharded& model,
                                 const ParameterOptimizer& optimizer,
                                 const OptimizerStateOptions& options, bool saves) {
  const Shared& shared = model.units().front()->shared;
  all_gather_object(s, *model.groups().world);
  const Visiting visiting(s, shared, {.site = Site::convert_state_with_original_parameters});
  StateDict saved;
  for (const auto& [name, own] : units_with_states(model, optimizer))
    gather_original_states(s, {*own.unit, options, saves}, own.states, saved);
  return saved;
}

}  // namespace

StateDict optimizer_state_dict(Session& s, FullySharded& model, const ParameterOptimizer& optimizer,
                               const OptimizerStateOptions& options) {
  const NoGrad no_grad(s);
  lazy_init(s, model.shared());
  reset_gradient_info_if_needed(model.shared());
  const bool saves = !options.rank0_only || model.groups().world->rank == 0 || options.sharded;
  const auto convert =
      model.shared().options.use_original_parameters ? of_original_parameters : of_flat_parameters;
  StateDict saved = convert(s, model, optimizer, options, saves);
  return saves ? saved : StateDict{};
}

}  // namespace shardscope::eager::fsdp1
