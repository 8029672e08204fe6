// torch.nn.Module.to_empty: a model that was made on the meta device gets memory.
#pragma once

#include <functional>

#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

/// Children first. A DTensor (`distributed`) stays the parameter that it is. A plain parameter is
/// replaced where it is registered, so that tied ones are tied no more; `replaced` is told.
void to_empty(Session& s, Module& module, bool distributed,
              const std::function<void(const Tensor& from, const Tensor& to)>& replaced = {});

}  // namespace shardscope::eager
