#include "backend/data/token_batch.h"

#include <algorithm>

namespace shardscope {

std::int64_t position_of(const BatchPlan& plan, std::int64_t step, int micro_batch) {
  const std::int64_t batches = step * plan.micro_batches + micro_batch;
  return plan.token_start + batches * plan.global_inputs() + plan.rank * plan.batch * plan.length;
}

void read_step(const TokenStream& stream, const BatchPlan& plan, std::int64_t step,
               std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
  const std::int64_t inputs = plan.batch * plan.length;
  const auto outside = [&](std::int32_t token) { return token >= plan.vocabulary; };
  for (int micro = 0; micro < plan.micro_batches; ++micro) {
    const auto at = static_cast<std::size_t>(micro * inputs);
    const auto count = static_cast<std::size_t>(inputs);
    const std::int64_t position = position_of(plan, step, micro);
    stream.read(position, tokens.subspan(at, count), targets.subspan(at, count));
    if (std::ranges::any_of(tokens.subspan(at, count), outside) ||
        outside(targets[at + count - 1])) {
      stream.require_vocabulary(position, inputs + 1, plan.vocabulary);
    }
  }
}

void require_usable(const TokenStream& stream, const BatchPlan& plan, std::int64_t steps) {
  stream.require_batch(plan.global_inputs());
  constexpr std::int64_t most = std::int64_t{1} << 28;
  const std::int64_t step_inputs = plan.global_inputs() * plan.micro_batches;
  const std::int64_t looked_at = steps > most / step_inputs ? most : steps * step_inputs;
  stream.require_vocabulary(plan.token_start, std::min(looked_at + 1, stream.size()),
                            plan.vocabulary);
}

}  // namespace shardscope
