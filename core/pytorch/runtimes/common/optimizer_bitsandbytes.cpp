// bitsandbytes' AdamW, Lion and RMSprop: optim/optimizer.py, Optimizer2State and Optimizer1State,
// of bitsandbytes 0.50.2.
#include <algorithm>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/runtimes/common/optimizer.h"

namespace shardscope::eager {
namespace {

constexpr std::int64_t min_8bit_elements = 4096;
constexpr std::int64_t min_paged_elements = 100'000;
constexpr std::int64_t block_elements = 256;  // that one number of absmax is for
constexpr std::int64_t code_elements = 256;

/// get_state_buffer. Managed memory is none of the caching allocator's.
Tensor state_buffer(Session& s, const Tensor& parameter, Dtype dtype, bool paged) {
  if (paged && parameter.numel() >= min_paged_elements)
    return empty(s, parameter.sizes(), {dtype, Device::cpu});
  static constexpr Operator op{"aten.zeros_like.default", OperatorKind::pointwise};
  Tensor state = allocate_like(s, parameter, dtype);
  dispatched(s, op, {&parameter}, {&state});
  return state;
}

}  // namespace

void ParameterOptimizer::make_bitsandbytes_state(Session& s, const Tensor& parameter,
                                                 State& state) {
  const BitsAndBytesOptimizer& wanted = *settings_.bitsandbytes;
  const Like numbers{Dtype::float32, parameter.device()};
  const bool overruled = std::any_of(in_float_.begin(), in_float_.end(),
                                     [&](const Tensor& other) { return other.is(parameter); });
  const bool in_bytes = wanted.bits == 8 && !overruled && parameter.numel() >= min_8bit_elements;
  const int moments = wanted.one_moment ? 1 : 2;
  const Dtype dtype = in_bytes ? Dtype::uint8 : Dtype::float32;
  if (in_bytes && code_tables_.empty())
    for (int i = 0; i < moments; ++i) code_tables_.push_back(empty(s, {code_elements}, numbers));
  state.first_moment = state_buffer(s, parameter, dtype, wanted.paged);
  if (moments > 1) state.second_moment = state_buffer(s, parameter, dtype, wanted.paged);
  if (!in_bytes) return;
  const std::int64_t blocks = (parameter.numel() + block_elements - 1) / block_elements;
  state.first_scales = zeros(s, {blocks}, numbers);
  if (moments > 1) state.second_scales = zeros(s, {blocks}, numbers);
}

void ParameterOptimizer::bitsandbytes_step(Session& s) {
  static constexpr Operator in_bytes{"bitsandbytes.optimizer_update_8bit_blockwise.default",
                                     OperatorKind::pointwise};
  static constexpr Operator in_floats{"bitsandbytes.optimizer_update_32bit.default",
                                      OperatorKind::pointwise};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i];
    State& state = states_[i];
    if (!parameter.grad()) continue;
    if (!state.first_moment) make_bitsandbytes_state(s, parameter, state);
    const Operator& update = state.first_scales ? in_bytes : in_floats;
    dispatched(s, update,
               {&parameter, &parameter.grad(), &state.first_moment, &state.second_moment,
                &state.first_scales, &state.second_scales},
               {&parameter});
    s.host_sync();  // sync_gpu
  }
}

}  // namespace shardscope::eager
