// The description of a model that was changed after it was made.
#pragma once

#include "core/model/model.h"
#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

/// `base` with the modules, parameters and buffers that `root`'s tree has now.
shardscope::Model described(Module& root, shardscope::Model base);

}  // namespace shardscope::eager
