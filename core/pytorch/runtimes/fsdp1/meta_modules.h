// Models made on the meta device, under FSDP1.
#pragma once

#include "core/pytorch/engine/module.h"

namespace shardscope::eager::fsdp1 {

/// What FSDP1 does without a param_init_fn: each module with parameters or buffers of its own is
/// emptied onto the device and told to reset_parameters(). torch.nn's modules can, transformers'
/// own cannot. Throws Refusal (AttributeError) where one of those is on the meta device. Source:
/// torch 2.15, torch/distributed/fsdp/_init_utils.py, _materialize_meta_module.
void check_meta_modules(Module& root);

}  // namespace shardscope::eager::fsdp1
