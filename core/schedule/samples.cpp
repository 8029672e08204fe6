#include "core/schedule/samples.h"

namespace shardscope {

Kernel cost_key(const Kernel& kernel) {
  const Kernel defaults;
  Kernel key = kernel;
  key.epsilon = defaults.epsilon;
  key.scale = defaults.scale;
  key.beta1 = defaults.beta1;
  key.beta2 = defaults.beta2;
  key.weight_decay = defaults.weight_decay;
  key.clip = defaults.clip;
  key.rope = defaults.rope;
  return key;
}

}  // namespace shardscope
