// Operators on lists of tensors, as optimizers and clipping use them; one launch for a list.
#pragma once

#include <initializer_list>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/observer.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

// In place on the first list. `op` is one of the constants below.
void foreach_in_place(Session& s, const Operator& op, std::initializer_list<const Tensors*> lists);
/// torch._foreach_add_(self, other) with one tensor for all; also _foreach_mul_.
void foreach_in_place(Session& s, const Operator& op, const Tensors& self, const Tensor& other);
/// A new list, each like its tensor in the first one.
Tensors foreach_new(Session& s, const Operator& op, std::initializer_list<const Tensors*> lists);
/// As Python lets go of a list: the last one first.
inline void let_go_of(Tensors& list) {
  while (!list.empty()) list.pop_back();
}
/// torch._foreach_norm: one number a tensor.
Tensors foreach_norm(Session& s, const Tensors& self);

inline constexpr Operator foreach_add_scalar_{"aten._foreach_add_.Scalar", OperatorKind::pointwise};
inline constexpr Operator foreach_add_tensor_{"aten._foreach_add_.Tensor", OperatorKind::pointwise};
inline constexpr Operator foreach_add_list_{"aten._foreach_add_.List", OperatorKind::pointwise};
inline constexpr Operator foreach_add_list{"aten._foreach_add.List", OperatorKind::pointwise};
inline constexpr Operator foreach_mul_scalar_{"aten._foreach_mul_.Scalar", OperatorKind::pointwise};
inline constexpr Operator foreach_mul_tensor_{"aten._foreach_mul_.Tensor", OperatorKind::pointwise};
inline constexpr Operator foreach_lerp_scalar_{"aten._foreach_lerp_.Scalar",
                                               OperatorKind::pointwise};
inline constexpr Operator foreach_addcmul_scalar_{"aten._foreach_addcmul_.Scalar",
                                                  OperatorKind::pointwise};
inline constexpr Operator foreach_addcdiv_list_{"aten._foreach_addcdiv_.ScalarList",
                                                OperatorKind::pointwise};
inline constexpr Operator foreach_div_list_{"aten._foreach_div_.ScalarList",
                                            OperatorKind::pointwise};
inline constexpr Operator foreach_sub_list_{"aten._foreach_sub_.List", OperatorKind::pointwise};
inline constexpr Operator foreach_sqrt{"aten._foreach_sqrt.default", OperatorKind::pointwise};
inline constexpr Operator foreach_maximum_list_{"aten._foreach_maximum_.List",
                                                OperatorKind::pointwise};
inline constexpr Operator foreach_zero_{"aten._foreach_zero_.default", OperatorKind::pointwise};
inline constexpr Operator fused_adam_{"aten._fused_adam_.default", OperatorKind::pointwise};
inline constexpr Operator fused_adamw_{"aten._fused_adamw_.default", OperatorKind::pointwise};
inline constexpr Operator fused_sgd_{"aten._fused_sgd_.default", OperatorKind::pointwise};

}  // namespace shardscope::eager
