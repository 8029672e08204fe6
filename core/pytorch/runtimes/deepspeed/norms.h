// Small computations on gradients that DeepSpeed's optimizers share.
// Source: deepspeed 0.19.8, runtime/utils.py and runtime/zero/utils.py.
#pragma once

#include "core/pytorch/engine/autograd.h"

namespace shardscope::eager::deepspeed {

/// has_inf_or_nan: largest and smallest, then a test of both.
Tensor has_inf_or_nan(Session& s, const Tensor& gradient);
/// mask_nan_or_inf_with_val_inplace.
void mask_invalid(Session& s, const Tensor& norm);
/// combine_grad_norm_groups.
Tensor combined_norm(Session& s, const Tensors& norms);
/// is_invalid_grad_norm: a value read back; the steps of a schedule are those that go on.
void check_norm(Session& s, const Tensor& norm);
/// The factor that unscales and clips: 1. / ((norm / scale + 1e-6) / clip, at least 1, * scale).
Tensor clip_factor(Session& s, const Tensor& norm);

}  // namespace shardscope::eager::deepspeed
