#include "core/pytorch/engine/models/torchtitan_attention.h"

#include <tuple>
#include <utility>

#include "core/pytorch/engine/aten/attention.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/rotary.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// repeat_kv of (B, T, H, D).
Tensor repeated(Session& s, const Tensor& heads, std::int64_t times) {
  if (times == 1) return heads;
  const std::int64_t batch = heads.size(0), tokens = heads.size(1), count = heads.size(2),
                     size = heads.size(3);
  return reshape(s, expand(s, unsqueeze(s, heads, 3), {batch, tokens, count, times, size}),
                 {batch, tokens, count * times, size});
}

}  // namespace

Module::Forward torchtitan_attention(std::int64_t head_size) {
  return [head_size](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor& hidden = arguments[0];
    const std::int64_t batch = hidden.size(0), tokens = hidden.size(1);
    Tensor query = call_one(s, module.child("q_proj"), {hidden});
    Tensor key = call_one(s, module.child("k_proj"), {hidden});
    Tensor value = call_one(s, module.child("v_proj"), {hidden});
    for (Tensor* projected : {&query, &key, &value})
      *projected = view(s, std::move(*projected), {batch, tokens, -1, head_size});
    std::tie(query, key) = apply_complex_rotary(s, query, key, arguments[2]);
    const std::int64_t times = query.size(2) / key.size(2);
    const Tensor keys = repeated(s, key, times);
    const Tensor values = repeated(s, value, times);
    query = transpose(s, std::move(query), 1, 2);
    key = transpose(s, keys, 1, 2);
    value = transpose(s, values, 1, 2);
    Tensor output = scaled_dot_product_attention(
        s, {.query = query, .key = key, .value = value, .causal = true});
    output = contiguous(s, transpose(s, std::move(output), 1, 2));
    output = view(s, std::move(output), {batch, tokens, -1});
    return {call_one(s, module.child("o_proj"), {output}), Tensor()};
  };
}

Module::Forward torchtitan_rotations() {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const NoGrad no_grad(s);
    const Tensor positions = to(s, unsqueeze(s, arguments[1], -1), Dtype::float32);
    const Tensor angles = mul(s, positions, module.buffer("inv_freq"));
    const Tensor pairs = stack(s, {cos(s, angles), sin(s, angles)}, -1);
    const Tensor table = unsqueeze(s, pairs, 2);
    return {table, table};
  };
}

}  // namespace shardscope::eager
