#include "core/pytorch/runtimes/fsdp2/division.h"

#include <cmath>

namespace shardscope::eager::fsdp2 {
namespace {

GradientDivision divided_by_collective(const DivisionInput& input) {
  if (!input.factor) {
    if (input.shards * input.replicas == 1) return {};
    return {.before = {},
            .after = {},
            .reduce_scatter = ReduceOperation::average,
            .all_reduce = ReduceOperation::average};
  }
  const bool is_average = *input.factor == input.shards;
  return {
      .before = {},
      .after = {},
      .reduce_scatter = is_average ? ReduceOperation::average : ReduceOperation::premultiplied_sum,
      .all_reduce = ReduceOperation::sum};
}

}  // namespace

std::string_view name_of(ReduceOperation operation) {
  switch (operation) {
    case ReduceOperation::sum:
      return "SUM";
    case ReduceOperation::average:
      return "AVG";
    case ReduceOperation::premultiplied_sum:
      return "PREMUL_SUM";
  }
  return {};
}

GradientDivision gradient_division(const DivisionInput& input) {
  const bool may_overflow =
      input.reduce_dtype != Dtype::float32 && input.reduce_dtype != Dtype::bfloat16;
  if (!may_overflow && !input.force_sum) return divided_by_collective(input);
  const double factor = input.factor.value_or(double(input.shards) * input.replicas);
  if (!may_overflow) return {.before = {}, .after = factor};
  double before = 1;
  while (std::fmod(factor, before) == 0 && factor / before > before) before *= 2;
  return {.before = before, .after = factor / before};
}

}  // namespace shardscope::eager::fsdp2
