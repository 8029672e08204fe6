#include "core/pytorch/engine/models/adaption_prompt.h"

#include <algorithm>

#include "core/pytorch/engine/aten/attention.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/attention_interface.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {

bool has_adaption_prompt(const Module& attention) {
  return std::ranges::any_of(attention.parameters, [](const Module::NamedTensor& own) {
    return own.name == adaption_prompt;
  });
}

Tensor with_adaption_prompt(Session& s, const PromptedAttention& attention) {
  const Tensor& query = attention.query;
  const Tensor& prompt = attention.module.parameter(adaption_prompt);
  const Tensor prefix = reshape(s, prompt, {1, prompt.size(0), prompt.size(1)});
  auto [key, value] = attention.project(prefix);
  const std::int64_t groups = query.size(1) / key.size(1);
  key = repeat_heads(s, key, groups);
  value = repeat_heads(s, value, groups);
  // The kernels want as many sequences of keys as of queries.
  key = expand(s, key, {query.size(0), -1, -1, -1});
  value = expand(s, value, {query.size(0), -1, -1, -1});
  const Tensor mask = ones(s, {query.size(2), key.size(2)}, {Dtype::boolean, query.device()});
  Tensor over_prompt =
      scaled_dot_product_attention(s, {.query = query, .key = key, .value = value, .mask = mask});
  over_prompt = transpose(s, std::move(over_prompt), 1, 2);
  return add(s, attention.attended,
             mul(s, attention.module.parameter(gating_factor), std::move(over_prompt)));
}

}  // namespace shardscope::eager
