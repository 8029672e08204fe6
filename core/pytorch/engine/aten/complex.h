// Products of complex numbers, whose two parts of float32 are the last dimension of a tensor.
#pragma once

#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// view_as_real(view_as_complex(self) * view_as_complex(other)). `other` requires no gradient. The
/// operator is aten.mul.complex, to tell it from products of real numbers; PyTorch's is
/// aten.mul.Tensor.
Tensor mul_complex(Session& s, Tensor self, Tensor other);

/// torch.polar, of what requires no gradient: the two parts are a further dimension.
Tensor polar(Session& s, Tensor lengths, Tensor angles);

}  // namespace shardscope::eager
