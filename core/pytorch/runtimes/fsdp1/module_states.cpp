#include "core/pytorch/runtimes/fsdp1/module_states.h"

#include <algorithm>
#include <deque>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/broadcast_coalesced.h"
#include "core/pytorch/runtimes/fsdp1/flat_handle.h"

namespace shardscope::eager::fsdp1 {
namespace {

bool is_unit(const Module& module) { return module.class_name == wrapper_class; }

void move(Session& s, const Tensor& tensor) {
  if (tensor && tensor.device() == Device::cpu)
    tensor.set_data(to(s, tensor, {.device = s.settings.device}));
}

bool is_among(const Tensors& tensors, const Tensor& tensor) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const Tensor& other) { return other.is(tensor); });
}

/// _sync_module_params_and_buffers.
void sync(Session& s, Unit& unit, Module& module, const Tensors& parameters,
          const ProcessGroup& group) {
  Tensors states;
  for (const auto& [name, buffer] : named_buffers_of(module)) {
    if (is_among(unit.shared.synced_buffers, buffer)) continue;
    unit.shared.synced_buffers.push_back(buffer);
    states.push_back(detach(s, buffer));
  }
  for (const Tensor& parameter : parameters) states.push_back(detach(s, parameter));
  ddp::broadcast_coalesced(s, group, states, ddp::broadcast_bucket_size);
}

}  // namespace

void move_to_device(Session& s, Module& module) {
  if (s.settings.device == Device::cpu) return;
  const NoGrad no_grad(s);
  Tensors parameters, buffers;
  for (std::deque<Module*> queue{&module}; !queue.empty(); queue.pop_front()) {
    for (const Module::NamedTensor& own : queue.front()->parameters)
      parameters.push_back(own.tensor);
    for (const Module::NamedTensor& own : queue.front()->buffers) buffers.push_back(own.tensor);
    for (const Module::Child& child : queue.front()->children)
      if (!is_unit(*child.module)) queue.push_back(child.module.get());
  }
  for (const Tensor& parameter : parameters) move(s, parameter);
  for (const Tensor& buffer : buffers) move(s, buffer);
}

void sync_module_states(Session& s, Unit& unit, Module& module, const Tensors& parameters) {
  const Visiting visiting(s, unit, Site::sync_module_states);
  if (unit.replicas) {
    sync(s, unit, module, parameters, *unit.replicas);
    for (const auto& [name, buffer] : named_buffers_of(module))
      std::erase_if(unit.shared.synced_buffers,
                    [&](const Tensor& synced) { return synced.is(buffer); });
  }
  sync(s, unit, module, parameters, unit.group);
}

}  // namespace shardscope::eager::fsdp1
