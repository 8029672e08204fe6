#include "core/schedule/model_flops.h"

namespace shardscope {
namespace {

bool is_attention_backward(const Schedule& schedule, const Operation& operation) {
  if (operation.work != Operation::no_work)
    return schedule.works[operation.work].kind == WorkKind::attention_backward;
  return operation.kind == OperationKind::compute && operation.detail != Operation::no_kernel &&
         schedule.kernels[operation.detail].kind() == KernelKind::attention_backward;
}

Flops needed(const Schedule& schedule, const Operation& operation) {
  if (operation.recomputed) return {};
  constexpr std::int64_t products = 5, new_products = 4;
  if (is_attention_backward(schedule, operation))
    return {operation.flops.count / products * new_products};
  return operation.flops;
}

}  // namespace

Flops model_flops(const Schedule& schedule) {
  Flops all;
  for (const Operation& operation : schedule.operations) {
    const bool last = static_cast<std::size_t>(operation.step) + 1 == schedule.steps.size();
    const bool counts = operation.phase == Phase::forward || operation.phase == Phase::backward;
    if (last && counts) all += needed(schedule, operation);
  }
  return all;
}

}  // namespace shardscope
