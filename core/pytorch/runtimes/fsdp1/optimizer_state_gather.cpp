#include "core/pytorch/runtimes/fsdp1/optimizer_state_gather.h"

#include <algorithm>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/common/object_collectives.h"

namespace shardscope::eager::fsdp1 {
namespace {

bool needs_no_gathering(const Unit& unit) {
  return unit.group.size() == 1 || unit.plan.strategy == ShardingStrategy::no_shard;
}

std::string name_of(const SavedForm& form, std::size_t parameter, std::string_view state) {
  return form.unit.plan.parameters[parameter].name + "." + std::string(state);
}

/// A parameter's part of the gathered state as it is saved.
void save(Session& s, const SavedForm& form, std::string name, Tensor value, StateDict& into) {
  StateEntry entry{.name = std::move(name),
                   .tensor = {},
                   .sizes = value.sizes(),
                   .is_sharded = form.options.sharded};
  if (form.options.sharded) {
    const Tensors chunks = chunk(s, value, form.unit.group.size(), 0);
    const auto rank = static_cast<std::size_t>(form.unit.group.rank);
    value = rank < chunks.size() ? clone(s, chunks[rank]) : Tensor();
  }
  if (form.options.offload_to_cpu && value) value = to(s, value, {.device = Device::cpu});
  entry.tensor = std::move(value);
  into.push_back(std::move(entry));
}

Tensor gathered_flat(Session& s, const Unit& unit, const Tensor& value) {
  const Tensor local = to(s, value, {.device = s.settings.device});
  const Tensor all = new_zeros(s, local, {unit.plan.flat.padded_elements()});
  all_gather_single(s, unit.group, all, local);
  synchronize_device(s, unit.shared);
  return slice(s, all, 0, 0, unit.plan.flat.unpadded_elements);
}

/// This rank's shard of a state: the parts of its parameters, and filler between them.
Tensor local_shard(Session& s, const Unit& unit, const std::vector<const OptimizerState*>& states,
                   Tensor OptimizerState::*member, Like kind) {
  Tensors pieces;
  std::int64_t at = 0;
  const auto fill_to = [&](std::int64_t end) {
    if (end > at) pieces.push_back(empty(s, {end - at}, kind));
    at = std::max(at, end);
  };
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto part = unit.handle->part(i);
    if (!part || !states[i]) continue;
    fill_to(part->offset);
    pieces.push_back(to(s, states[i]->*member, {.device = kind.device}));
    at = part->offset + part->elements;
  }
  fill_to(unit.plan.flat.shard_elements);
  return cat(s, pieces);
}

/// Which states any rank has; this rank may hold no part of the unit and still takes part.
std::vector<NamedState> states_to_gather(const std::vector<const OptimizerState*>& states) {
  std::vector<NamedState> wanted;
  for (const NamedState& named : named_states)
    if (std::any_of(states.begin(), states.end(), [&](const OptimizerState* state) {
          return state && (state->*named.member).defined();
        }))
      wanted.push_back(named);
  const bool holds_nothing =
      std::none_of(states.begin(), states.end(), [](const OptimizerState* state) { return state; });
  if (holds_nothing) wanted = {named_states[0], named_states[1]};
  return wanted;
}

}  // namespace

void gather_flat_state(Session& s, const SavedForm& form, const OptimizerState& state,
                       StateDict& into) {
  std::vector<std::pair<std::string_view, Tensor>> gathered;
  for (const NamedState& named : named_states) {
    const Tensor& value = state.*named.member;
    if (!value) continue;
    gathered.emplace_back(
        named.name, needs_no_gathering(form.unit) ? value : gathered_flat(s, form.unit, value));
  }
  if (!form.saves) return;
  for (const auto& [name, flat] : gathered) {
    const Tensors views = form.unit.handle->unflat_views(s, flat);
    for (std::size_t i = 0; i < views.size(); ++i)
      save(s, form, name_of(form, i, name), views[i], into);
  }
}

void gather_original_states(Session& s, const SavedForm& form,
                            const std::vector<const OptimizerState*>& states, StateDict& into) {
  const Unit& unit = form.unit;
  if (needs_no_gathering(unit)) return;
  const Visiting visiting(s, unit.shared, {.site = Site::gather_all_original_parameter_state});
  {
    const Visiting telling(s, unit.shared, {.site = Site::all_gather_state_info});
    all_gather_object(s, unit.group);
  }
  const Visiting gathering(s, unit.shared, {.site = Site::all_gather_original_parameter_states});
  const Like kind{unit.handle->flat().dtype(), s.settings.device};
  const std::vector<NamedState> wanted = states_to_gather(states);
  if (wanted.empty()) return;
  const Tensor all = empty(s, {unit.plan.flat.padded_elements()}, kind);
  synchronize_device(s, unit.shared);
  Tensor shard;  // Python's variable: the last state's shard lives until there is the next
  for (const NamedState& named : wanted) {
    shard = local_shard(s, unit, states, named.member, kind);
    synchronize_device(s, unit.shared);
    all_gather_single(s, unit.group, all, shard);
    synchronize_device(s, unit.shared);
    if (!form.saves) continue;
    const Tensors views =
        unit.handle->unflat_views(s, slice(s, all, 0, 0, unit.plan.flat.unpadded_elements));
    for (std::size_t i = 0; i < views.size(); ++i) {
      if (!unit.handle->parameters()[i].requires_grad()) continue;
      const bool copies = !form.options.sharded && !form.options.offload_to_cpu;
      save(s, form, name_of(form, i, named.name), copies ? clone(s, views[i]) : views[i], into);
    }
  }
}

}  // namespace shardscope::eager::fsdp1
