#include "core/pytorch/runtimes/common/to_empty.h"

#include "core/pytorch/engine/copies.h"

namespace shardscope::eager {

void to_empty(Session& s, Module& module, bool distributed,
              const std::function<void(const Tensor& from, const Tensor& to)>& replaced) {
  const auto fresh = [&](const Tensor& tensor) {
    return allocate_strided(s, {tensor.dtype(), s.settings.device}, tensor.sizes(),
                            tensor.strides());
  };
  for (const Module::Child& child : module.children)
    to_empty(s, *child.module, distributed, replaced);
  for (Module::NamedTensor& own : module.parameters) {
    if (!own.tensor) continue;
    if (distributed) {
      own.tensor.set_data(fresh(own.tensor));
      continue;
    }
    const Tensor real = fresh(own.tensor);
    real.set_requires_grad(own.tensor.requires_grad());
    if (replaced) replaced(own.tensor, real);
    own.tensor = real;
  }
  for (Module::NamedTensor& own : module.buffers)
    if (own.tensor) own.tensor = fresh(own.tensor);
}

}  // namespace shardscope::eager
