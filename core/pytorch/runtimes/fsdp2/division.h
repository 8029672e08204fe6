// How FSDP2 divides gradients around their reduction.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/dtype.h"

namespace shardscope::eager::fsdp2 {

/// torch.distributed.ReduceOp, as far as FSDP2 uses it. A premultiplied sum scales while it adds.
enum class ReduceOperation : std::uint8_t { sum, average, premultiplied_sum };
/// "SUM", "AVG", "PREMUL_SUM": ReduceOp's own names.
std::string_view name_of(ReduceOperation operation);

struct DivisionInput {
  int shards = 1;    ///< ranks of the reduce-scatter
  int replicas = 1;  ///< ranks of the all-reduce; 1: there is none
  Dtype reduce_dtype = Dtype::float32;
  std::optional<double> factor;  ///< set_gradient_divide_factor
  bool force_sum = false;        ///< set_force_sum_reduction_for_comms
};

/// Divisors before and after the collectives (absent: none) and the collectives' own operations.
struct GradientDivision {
  std::optional<double> before, after;
  ReduceOperation reduce_scatter = ReduceOperation::sum;
  ReduceOperation all_reduce = ReduceOperation::sum;
  bool operator==(const GradientDivision&) const = default;
};

/// float32 and bfloat16 leave the division to the collective; float16 divides by a power of two
/// near the root of the world before the sum and by the rest after it, for its smaller range.
/// Example: 8 ranks, float16: 4 before, 2 after. Source: torch 2.15, _fsdp_collectives.py,
/// _get_gradient_divide_factors.
GradientDivision gradient_division(const DivisionInput& input);

}  // namespace shardscope::eager::fsdp2
