// What an operator of PyTorch's asks of a device, from its call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pytorch/engine/observer.h"
#include "core/schedule/device_work.h"

namespace shardscope::eager {

/// What moves less in the host's memory takes the host no longer than to dispatch it, which is
/// counted for all.
inline constexpr Bytes least_host_work{64 << 10};

/// What of an operator its name and kind alone tell.
struct OperatorTrait {
  WorkKind kind = WorkKind::pointwise;
  int launches = 1;
  int lists = 0;    ///< of multi_tensor: lists of tensors given
  int written = 0;  ///< of multi_tensor: of these, how many are changed in place
  /// The first input, or list of them, is written and not read.
  bool overwrites = false;
  AttentionLibrary library = AttentionLibrary::none;
};
OperatorTrait trait_of(const Operator& op);

/// Where the two factors of a product begin among the tensors of its call: a bias is before them,
/// scales and offsets of groups are after them.
std::size_t first_factor(std::string_view name, std::size_t inputs);

/// Of [..., m, k] by [..., k, n] with the result `out`; a vector is one column. Zero where the
/// sizes are not those of a product. Groups of tokens share them evenly.
MatmulShape matmul_shape(std::string_view name, const Dims& first, const Dims& second,
                         const Dims& out);

/// Bytes that a kernel touches of a tensor: no more than there is, where it is expanded.
std::int64_t bytes_touched(const TensorImpl& tensor);

/// Inputs, from the first, that a call without outputs changes in place.
std::size_t changed_inputs(const OperatorCall& call, const OperatorTrait& trait);

/// Shapes from the call's tensors; launches as ATen issues them (torch 2.15: multi_tensor_apply in
/// ATen/native/cuda/MultiTensorApply.cuh, the sorted embedding_dense_backward, matrix products and
/// most others in one). Bytes: what is read once and what is written once, no more of an expanded
/// operand than there is, and of what is indexed as much as comes out.
DeviceWork work_of(const OperatorCall& call, const OperatorTrait& trait);

}  // namespace shardscope::eager
