#include "core/pytorch/engine/aten/flex_attention.h"

#include <algorithm>
#include <array>

#include "core/pytorch/engine/dispatch.h"

namespace shardscope::eager {
namespace {

constexpr Operator forward_op{"higher_order.flex_attention", OperatorKind::attention};
constexpr Operator delta_op{"higher_order.flex_attention_delta", OperatorKind::reduction};
constexpr Operator backward_op{"higher_order.flex_attention_backward", OperatorKind::attention};

/// B x H x T, of float32.
Tensor allocate_rows(Session& s, const Tensor& query) {
  return allocate(s, like(query, Dtype::float32), {query.size(0), query.size(1), query.size(2)});
}

/// Of so many products over the columns of keys, and over those of values.
std::int64_t flops_of(const Tensor& query, const Tensor& value, std::int64_t by_keys,
                      std::int64_t by_values) {
  const std::int64_t pairs = query.size(0) * query.size(1) * query.size(2) * value.size(2);
  return 2 * pairs * (by_keys * query.size(3) + by_values * value.size(3));
}

/// What attention returns, in the query's order of dimensions and with the values' columns.
Tensor allocate_output(Session& s, const Tensor& query, const Tensor& value) {
  Dims sizes = query.sizes(), strides = sizes;
  sizes[-1] = value.size(3);
  std::array<int, 4> order{0, 1, 2, 3};
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return query.strides()[a] < query.strides()[b]; });
  std::int64_t stride = 1;
  for (const int dim : order) {
    strides[dim] = stride;
    stride *= sizes[dim];
  }
  return allocate_strided(s, like(query), sizes, strides);
}

/// Another handle of the same memory.
Tensor same(const Tensor& tensor) {
  return alias_of(tensor, tensor.sizes(), tensor.strides(), tensor->layout.offset);
}

/// The output goes when its product with the gradient is there.
Tensors backward_of(Session& s, Node& node, Tensors& gradients) {
  const Tensor query = node.saved(s, "query"), key = node.saved(s, "key"),
               value = node.saved(s, "value"), logsumexp = node.saved(s, "logsumexp");
  Tensor output = node.saved(s, "output");
  node.release_saved();
  const Tensor delta = allocate_rows(s, query);
  dispatched(s, delta_op, {&output, &gradients[0]}, {&delta});
  output.reset();
  Tensor of_query = allocate_like(s, query, query.dtype());
  Tensor of_value = allocate_like(s, value, value.dtype());
  Tensor of_key = allocate_like(s, key, key.dtype());
  constexpr std::int64_t by_keys = 3, by_values = 2;
  dispatched(s, backward_op, {&gradients[0], &query, &key, &value, &logsumexp, &delta},
             {&of_query, &of_key, &of_value}, {flops_of(query, value, by_keys, by_values), true});
  return {std::move(of_query), std::move(of_key), std::move(of_value)};
}

}  // namespace

Tensor flex_attention(Session& s, Tensor query, Tensor key, Tensor value) {
  const LetGo let_go{query, key, value};
  const NodeRef node = make_node(s, "CompiledFunctionBackward", {&query, &key, &value},
                                 [](Session& in, Node& me, Tensors& gradients) -> Tensors {
                                   return backward_of(in, me, gradients);
                                 });
  const Tensor logsumexp = allocate_rows(s, query);
  Tensor output = allocate_output(s, query, value);
  // The compiled region returns what backward needs of its inputs, too: a selective checkpoint
  // keeps them with the output.
  const Tensors kept{same(query), same(key), same(value)};
  const CallFacts facts{flops_of(query, value, 1, 1), true};
  if (s.selective_forward != nullptr || s.selective_replay != nullptr)
    dispatched(s, forward_op, {&query, &key, &value},
               {&output, &logsumexp, &kept[0], &kept[1], &kept[2]}, facts);
  else
    dispatched(s, forward_op, {&query, &key, &value}, {&output, &logsumexp}, facts);
  set_history(s, output, node);
  if (!node) return output;
  node->save(s, "query", kept[0]);
  node->save(s, "key", kept[1]);
  node->save(s, "value", kept[2]);
  node->save_output(s, "output", output);
  node->save(s, "logsumexp", logsumexp);
  return output;
}

}  // namespace shardscope::eager
