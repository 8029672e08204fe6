#include "core/pytorch/runtimes/deepspeed/inference_engine.h"

#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/runtimes/common/collectives.h"

namespace shardscope::eager::deepspeed {

InferenceEngine::InferenceEngine(Session& s, ProcessGroups& groups, Module& model,
                                 DeepSpeedSettings settings)
    : settings_(std::move(settings)),
      parameters_(named_parameters_of(model)),
      optimizer_(OptimizerSettings{}),
      setup_{.s = s,
             .settings = settings_,
             .parameters = parameters_,
             .groups = groups_,
             .group = groups.world(),
             .watchers = watchers_,
             .optimizer = optimizer_} {
  const NoGrad no_grad(s);
  const Device device = s.settings.device;
  for (Module* module : modules_of(model))
    for (const Module::NamedTensor& buffer : module->buffers)
      if (buffer.tensor) buffer.tensor.set_data(to(s, buffer.tensor, {.device = device}));
  if (settings_.stage < 3) {
    for (const NamedParameter& p : parameters_)
      p.tensor().set_data(
          to(s, detach(s, p.tensor()), {.dtype = settings_.precision, .device = device}));
    for (const NamedParameter& p : parameters_) broadcast_bytes(s, setup_.group, p.tensor(), 0);
    return;
  }
  offload_ = std::make_unique<ParameterOffload>(setup_, model, groups.world(), nullptr);
  model.forward_pre_hooks.insert(
      model.forward_pre_hooks.begin(),
      [this](Session&, Module&, Arguments&) { offload_->start_forward(); });
  model.forward_hooks.push_back(
      [this](Session&, Module&, const Arguments&, Tensors&) { offload_->end_forward(); });
}

}  // namespace shardscope::eager::deepspeed
