// Float8: linear layers whose products have factors of 8 bits, and the kernels that make these.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/schedule/schedule.h"

namespace shardscope {

/// Who casts to 8 bits, and how the scale is found. Bytes are those of one element.
enum class Float8Casts : std::uint8_t {
  none,
  delayed,   ///< Transformer Engine and flax, the scale of earlier steps: 2 read, 1 written as it
             ///< lies and 1 transposed
  current,   ///< Transformer Engine, the scale of the values: the same after a pass that reads 2
  compiled,  ///< torchao under torch.compile: 2 read, 1 written; of the output's gradient twice,
             ///< as it lies and transposed. Whoever wrote the values found the largest one, or a
             ///< pass reads 2 for it: of what attention writes and of the block's own gradient
  rowwise,   ///< torchao under torch.compile, a scale for each row: 2 read, 1 written; across the
             ///< rows, for the backward, after a pass that reads 2. Both products of the backward
             ///< are scaled by a pass behind them: 2 read, 2 written
};
std::string_view name_of(Float8Casts casts);

struct Float8Kernels {
  Float8Casts casts = Float8Casts::none;
  bool casts_weights = false;  ///< at each use; else once a step, which is left out
  /// What blocks gather is cast to 8 bits before: weights, and tokens of a sequence in parts. The
  /// copy that puts these tokens in order moves 8-bit numbers, too.
  /// Source of the latter: torchao float8/float8_tensor_parallel.py (Float8ColwiseParallel,
  /// Float8RowwiseParallel: the gradient of the output).
  bool gathers_casts = false;
  /// Of the rate of other products, that of products with precise sums (MatmulEfficiency). They are
  /// those of the backward. Sources: torchao float8/config.py (gemm_config_grad_input,
  /// gemm_config_grad_weight: no fast accumulation); Transformer Engine pytorch/module/base.py
  /// (_2X_ACC_DGRAD, _2X_ACC_WGRAD); XLA's, of the precision that flax asks for in the backward
  /// (openxla/xla pull request 6599).
  double precise_sums = 1;
  /// Share of the other casts' rate that casts across the rows reach, which torch.compile writes
  /// transposed (MemoryEfficiency). For rowwise casts only.
  double transposed_casts = 1;
  bool operator==(const Float8Kernels&) const = default;
};

/// The last step with the three products of each linear layer of a block in 8 bits, and casts
/// before them: of the input, which layers beside each other (q, k, v; gate, up) share, of the
/// output's gradient, and, by torchao, of the input and of the weight again. Heads, embeddings and
/// attention stay as they are. Sources: transformer_engine/pytorch/module/linear.py; torchao
/// 6243040, torchao/float8/float8_linear.py (matmul_with_hp_or_float8_args), config.py (rowwise: no
/// fast accumulation in the backward), float8_ops.py (preprocess_addmm copies what does not lie as
/// cuBLAS asks; post_inverse_scale); the common subexpressions of PyTorch's AOTAutograd, which
/// leave one cast of what layers share; pytorch issue 133242 (inductor of 2024 reads twice what it
/// writes as it lies and transposed; not known of later ones).
/// Example: x [64, 32] by a weight [16, 32], delayed: the cast moves 64 * 32 * 4 bytes.
Schedule with_float8(Schedule schedule, const Float8Kernels& kernels);

}  // namespace shardscope
