// Small computations on gradients that both ZeRO optimizers share.
#pragma once

#include "core/lower/pytorch/session.h"

namespace shardscope::eager::deepspeed {

/// deepspeed 0.19.8, runtime/utils.py, has_inf_or_nan: largest and smallest, then a test of both.
Tensor has_inf_or_nan(Session& s, const Tensor& gradient);
/// mask_nan_or_inf_with_val_inplace.
void mask_invalid(Session& s, const Tensor& norm);
/// What gradients are multiplied by to unscale and clip them.
Tensor scale_tensor(Session& s);

}  // namespace shardscope::eager::deepspeed
