// Precision: the element types of a training step.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/dtype.h"

namespace shardscope {

/// `bf16`: everything in bfloat16, as a PyTorch model after model.bfloat16(), optimizer states
/// included. `bf16_mixed`: bfloat16 is computed with and gathered; a float32 master copy of the
/// parameters, gradients and optimizer states are kept, as FSDP2 with MixedPrecisionPolicy(
/// param_dtype=bfloat16, reduce_dtype=float32).
enum class Precision : std::uint8_t { fp32, bf16, bf16_mixed };
std::string_view name_of(Precision precision);
/// Throws Error naming `where` and the choices.
Precision parse_precision(std::string_view text, std::string_view where);

struct PrecisionDtypes {
  Dtype compute = Dtype::float32;    ///< parameters that kernels read, activations, their gradients
  Dtype gradients = Dtype::float32;  ///< of parameters: as written, added up and reduced
  Dtype updated = Dtype::float32;    ///< what the optimizer updates, and its states

  /// The optimizer updates a copy of its own, from which the computed-with parameters are rounded.
  bool has_master() const { return updated != compute; }
  bool operator==(const PrecisionDtypes&) const = default;
};
PrecisionDtypes dtypes_of(Precision precision);

}  // namespace shardscope
