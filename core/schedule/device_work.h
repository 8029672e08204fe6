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
  /// Of a query and a key, computed for each head of each sequence: of a window, or of queries that
  /// do not stand at the end of the keys. 0: what `causal` says.
  std::int64_t pairs = 0;
  bool operator==(const AttentionShape&) const = default;
};

/// What a convolution of cuDNN has besides its products.
struct ConvolutionShape {
  std::int64_t channels = 0;  ///< of a group's input; 0: no convolution
  bool backward = false;
  /// Copies to channels last and back, which kernels of tensor cores want: 3 for each product
  /// (input, weight, output), 0 where channels are last already.
  std::int32_t rearrangements = 0;
  Bytes rearranged;  ///< of the copied tensors together
  bool operator==(const ConvolutionShape&) const = default;
};

/// cuDNN's recurrent network. Each layer has a product of all steps' inputs, and in each step one
/// of its state: [batch, hidden] x [hidden, gates * hidden].
struct RecurrentShape {
  std::int64_t layers = 0;  ///< times directions; 0: no recurrent network
  std::int64_t steps = 0, batch = 0, input = 0, hidden = 0, gates = 1, directions = 1;
  bool backward = false;
  /// One kernel for all steps keeps the weights on the chip.
  bool persistent = false;
  bool operator==(const RecurrentShape&) const = default;
};

struct DeviceWork {
  WorkKind kind = WorkKind::pointwise;
  /// Of the factors of products; of others that of the result.
  Dtype dtype = Dtype::float32;
  std::int32_t launches = 1;     ///< kernels, one after the other
  std::int32_t tensors = 1;      ///< of multi_tensor: length of the list
  MatmulShape matmul;            ///< of matmul
  ConvolutionShape convolution;  ///< of matmul: the product is that of a convolution
  RecurrentShape recurrent;      ///< of matmul: the products are those of a recurrent network
  AttentionShape attention;      ///< of attention
  /// Of a kernel with one block for each channel: no more multiprocessors work. 0: enough.
  std::int64_t blocks = 0;
  Bytes bytes;  ///< read and written, every operand once
  /// Really computed: of causal attention the half (and the diagonal) that is not masked.
  Flops flops;
  bool operator==(const DeviceWork&) const = default;
};

struct DeviceWorkHash {
  std::size_t operator()(const DeviceWork& work) const;
};

/// Flops of attention's products: two forward, five backward, where the scores are made again. Of
/// causal attention only those of keys that a query sees; queries stand at the end of the keys,
/// unless `pairs` counts them.
/// Example: 1 x 1 head, 4 queries, 4 keys, head size 8: 16 scores, causal 10: 10 x 2 x 8 x 2 = 320.
Flops attention_flops(const AttentionShape& shape, bool backward);

/// What a kernel of `native` asks; flops and bytes are those of core/schedule/kernel.h.
DeviceWork device_work(const Kernel& kernel);

}  // namespace shardscope
