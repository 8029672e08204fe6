#include "core/pytorch/plans/deepspeed_zero.h"

#include "core/base/refusal.h"

namespace shardscope {

std::vector<std::int32_t> all_parameters(const ModuleTree& tree) {
  std::vector<std::int32_t> parameters;
  for (std::size_t i = 0; i < tree.parameters.size(); ++i)
    if (!tree.parameters[i].same_as) parameters.push_back(static_cast<std::int32_t>(i));
  return parameters;
}

ZeroOptimizer zero_optimizer(const ZeroSettings& settings) {
  if (settings.stage == 3) return ZeroOptimizer::stage_3;
  const bool mixed =
      settings.precision == Dtype::bfloat16 && settings.gradient_accumulation == Dtype::float32;
  return mixed && settings.stage == 1 && !settings.offload_optimizer ? ZeroOptimizer::bf16
                                                                     : ZeroOptimizer::stage_1_and_2;
}

void refuse_scalars(const ModuleTree& tree) {
  for (const TreeParameter& parameter : tree.parameters)
    if (parameter.shape.empty())
      throw Refusal("RuntimeError", {.where = parameter.name,
                                     .what = "DeepSpeed cannot broadcast a scalar parameter",
                                     .way_out = "give it the shape [1]"});
}

bool is_optimized(const TreeParameter& parameter) {
  return parameter.trainable && parameter.elements() > 0;
}

Dtype dtype_under(const ZeroSettings& settings, const TreeParameter& parameter) {
  return settings.precision.value_or(parameter.dtype);
}

}  // namespace shardscope
