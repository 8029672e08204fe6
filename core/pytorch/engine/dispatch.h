// How an operator tells that it ran, and how its outputs come to be. For writers of operators.
#pragma once

#include <initializer_list>
#include <span>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/observer.h"
#include "core/pytorch/engine/session.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// What of an operator's arguments is no tensor, as far as observers ask.
struct CallFacts {
  // NOLINTNEXTLINE(google-explicit-constructor): most operators know their flops alone
  CallFacts(std::int64_t flops_of_it = OperatorCall::flops_unknown, bool is_causal = false,
            std::int64_t attended_pairs = 0)
      : flops(flops_of_it), causal(is_causal), pairs(attended_pairs) {}
  std::int64_t flops;
  bool causal;
  std::int64_t pairs;
  std::span<const InputStretch> stretches = {};
};

/// Tells the observers: once per dispatched operator, below autograd and autocast. None among the
/// tensors is left out.
void dispatched(Session& s, const Operator& op, TensorPointers inputs, TensorPointers outputs,
                CallFacts facts = {});
void dispatched(Session& s, const Operator& op, std::span<const Tensor* const> inputs,
                std::span<const Tensor* const> outputs, CallFacts facts = {});
/// The same for operators that take or return lists.
void dispatched(Session& s, const Operator& op, const Tensors& inputs, const Tensors& outputs,
                CallFacts facts = {});

/// What a fresh tensor is like.
struct Like {
  Dtype dtype = Dtype::float32;
  Device device = Device::cuda;
};
inline Like like(const Tensor& tensor) { return {tensor.dtype(), tensor.device()}; }
inline Like like(const Tensor& tensor, Dtype dtype) { return {dtype, tensor.device()}; }

/// A contiguous tensor of its own storage, on the current stream; no operator by itself.
Tensor allocate(Session& s, Like like, const Dims& sizes);
/// With the given strides; the storage spans what they reach (at::detail::computeStorageNbytes).
Tensor allocate_strided(Session& s, Like like, const Dims& sizes, const Dims& strides);
/// at::empty_like with preserve_format: dense tensors keep their strides, others get the order of
/// theirs.
Tensor allocate_like(Session& s, const Tensor& tensor, Dtype dtype);
/// The same storage seen otherwise; no operator by itself.
Tensor alias_of(const Tensor& base, const Dims& sizes, const Dims& strides, std::int64_t offset);
/// at::infer_dense_strides / empty_like's strides under preserve_format.
Dims preserved_strides(const Tensor& tensor);
/// c10 is_non_overlapping_and_dense.
bool is_dense(const Dims& sizes, const Dims& strides);

/// Broadcast of two shapes; throws Error where they do not go together.
Dims broadcast(const Dims& a, const Dims& b);
/// Makes a dimension non-negative.
int wrap_dim(int dim, int dims);

}  // namespace shardscope::eager
