// DeviceWork: what one operation asks of a device, whoever issues it: a kernel of `native` or an
// operator of PyTorch's. Equal values cost the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/quantities.h"
#include "core/schedule/kernel.h"

namespace shardscope {

enum class WorkKind : std::uint8_t {
  pointwise,
  reduction,
  norm_forward,
  norm_backward,
  softmax,  ///< over the last dimension, forward or backward; cross-entropy too
  random,   ///< pointwise with numbers drawn: dropout
  gather,   ///< rows picked by index
  scatter,  ///< rows added by index: the backward of an embedding
  copy,     ///< rearranged or cast, by a kernel
  fill,
  multi_tensor,  ///< a list of tensors in few launches: torch._foreach_*, fused optimizers
  matmul,
  attention_forward,
  attention_backward
};
std::string_view name_of(WorkKind kind);

/// Who computes attention without writing its scores out.
/// `flash` is FlashAttention-2, `flash1` its predecessor, `triton` that of llm-foundry and of the
/// flash-attn package (flash_attn_triton.py).
enum class AttentionLibrary : std::uint8_t {
  none,
  flash,
  efficient,
  cudnn,
  flash1,
  triton,
  flash3
};
std::string_view name_of(AttentionLibrary library);

/// `batch` products [m, k] x [k, n].
struct MatmulShape {
  std::int64_t batch = 0, m = 0, n = 0, k = 0;
  bool operator==(const MatmulShape&) const = default;
};

/// Queries [batch, heads, queries, head_dim]; keys and values [batch, kv_heads, keys, head_dim].
struct AttentionShape {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, head_dim = 0;
  AttentionLibrary library = AttentionLibrary::none;
  bool causal = false;
  bool operator==(const AttentionShape&) const = default;
};

struct DeviceWork {
  WorkKind kind = WorkKind::pointwise;
  /// Of the factors of products; of others that of the result.
  Dtype dtype = Dtype::float32;
  std::int32_t launches = 1;  ///< kernels, one after the other
  std::int32_t tensors = 1;   ///< of multi_tensor: length of the list
  MatmulShape matmul;         ///< of matmul
  /// The product is cuDNN's convolution: bytes are those of its tensors, and factors in float32 are
  /// rounded to TF32.
  bool is_convolution = false;
  AttentionShape attention;  ///< of attention
  Bytes bytes;               ///< read and written, every operand once
  /// Really computed: of causal attention the half (and the diagonal) that is not masked.
  Flops flops;
  bool operator==(const DeviceWork&) const = default;
};

struct DeviceWorkHash {
  std::size_t operator()(const DeviceWork& work) const;
};

/// Flops of attention's products: two forward, five backward, where the scores are made again. Of
/// causal attention only those of keys that a query sees; queries stand at the end of the keys.
/// Example: 1 x 1 head, 4 queries, 4 keys, head size 8: 16 scores, causal 10: 10 x 2 x 8 x 2 = 320.
Flops attention_flops(const AttentionShape& shape, bool backward);

/// What a kernel of `native` asks; flops and bytes are those of core/schedule/kernel.h.
DeviceWork device_work(const Kernel& kernel);

}  // namespace shardscope
