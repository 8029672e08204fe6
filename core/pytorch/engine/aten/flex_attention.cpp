#include "core/pytorch/engine/aten/flex_attention.h"

#include <algorithm>
#include <array>

#include "core/pytorch/engine/dispatch.h"

namespace shardscope::eager {
namespace {

constexpr Operator forward_op{"higher_order.flex_attention", OperatorKind::attention};
constexpr Operator delta_op{"higher_order.flex_attention_delta", OperatorKind::reduction};
constexpr Operator scale_op{"higher_order.flex_attention_sums", OperatorKind::pointwise};
constexpr Operator backward_op{"higher_order.flex_attention_backward", OperatorKind::attention};

/// B x H x T, of float32.
Tensor allocate_rows(Session& s, const Tensor& query) {
  return allocate(s, like(query, Dtype::float32), {query.size(0), query.size(1), query.size(2)});
}

/// What attention looks at of each row.
struct Reach {
  std::int64_t window = 0;  ///< tokens; 0: all before
};

/// Of as many queries as keys. A window is computed in whole blocks of 128 x 128: a block of
/// queries has its own block of keys and those before it that its first query reaches. Example:
/// 1024 tokens and a window of 128: 1 block, then 7 times 2.
std::int64_t pairs_of(std::int64_t tokens, Reach reach) {
  const std::int64_t causal = tokens * (tokens + 1) / 2;
  if (reach.window == 0) return causal;
  constexpr std::int64_t block = 128;
  const std::int64_t reached = (std::min(reach.window, tokens) + block - 2) / block + 1;
  const std::int64_t whole = tokens / block, rest = tokens % block;
  const std::int64_t growing = std::min(whole, reached);
  const std::int64_t blocks = growing * (growing + 1) / 2 + (whole - growing) * reached;
  const std::int64_t of_rest = rest * std::min(tokens, rest + (reached - 1) * block);
  return std::min(causal, blocks * block * block + of_rest);
}

/// Of so many products over the columns of keys, and over those of values. Fewer queries than keys
/// are a rank's part of them, from the front and the back (_HeadTailLoadBalancer): its share of the
/// pairs is that of every rank. flop_counter counts keys that the mask hides, too.
CallFacts facts_of(const Tensor& query, const Tensor& value, Reach reach, std::int64_t by_keys,
                   std::int64_t by_values) {
  const std::int64_t queries = query.size(2), keys = value.size(2);
  const std::int64_t scores = query.size(0) * query.size(1) * queries * keys;
  const std::int64_t ranks = std::max<std::int64_t>(1, keys / std::max<std::int64_t>(1, queries));
  return {2 * scores * (by_keys * query.size(3) + by_values * value.size(3)), true,
          pairs_of(keys, reach) / ranks};
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
Tensors backward_of(Session& s, Node& node, Tensors& gradients, Reach reach) {
  const Tensor query = node.saved(s, "query"), key = node.saved(s, "key"),
               value = node.saved(s, "value"), logsumexp = node.saved(s, "logsumexp");
  Tensor output = node.saved(s, "output");
  node.release_saved();
  const Tensor delta = allocate_rows(s, query);
  if (gradients.size() > 1)
    dispatched(s, delta_op, {&output, &gradients[0], &gradients[1]}, {&delta});
  else
    dispatched(s, delta_op, {&output, &gradients[0]}, {&delta});
  output.reset();
  Tensor of_query = allocate_like(s, query, query.dtype());
  Tensor of_value = allocate_like(s, value, value.dtype());
  Tensor of_key = allocate_like(s, key, key.dtype());
  constexpr std::int64_t by_keys = 3, by_values = 2;
  dispatched(s, backward_op, {&gradients[0], &query, &key, &value, &logsumexp, &delta},
             {&of_query, &of_key, &of_value}, facts_of(query, value, reach, by_keys, by_values));
  return {std::move(of_query), std::move(of_key), std::move(of_value)};
}

/// What the compiled region returns; `sums` alone where they are asked for.
AttentionWithSums attend(Session& s, Tensor query, Tensor key, Tensor value, Reach reach,
                         bool asks_sums) {
  const LetGo let_go{query, key, value};
  const NodeRef node = make_node(s, "CompiledFunctionBackward", {&query, &key, &value},
                                 [reach](Session& in, Node& me, Tensors& gradients) -> Tensors {
                                   return backward_of(in, me, gradients, reach);
                                 });
  const Tensor logsumexp = allocate_rows(s, query);
  Tensor output = allocate_output(s, query, value);
  // The compiled region returns what backward needs of its inputs, too: a selective checkpoint
  // keeps them with the output.
  const Tensors kept{same(query), same(key), same(value)};
  const CallFacts facts = facts_of(query, value, reach, 1, 1);
  if (s.selective_forward != nullptr || s.selective_replay != nullptr)
    dispatched(s, forward_op, {&query, &key, &value},
               {&output, &logsumexp, &kept[0], &kept[1], &kept[2]}, facts);
  else
    dispatched(s, forward_op, {&query, &key, &value}, {&output, &logsumexp}, facts);
  Tensor sums;
  if (asks_sums) {
    sums = allocate_rows(s, query);
    dispatched(s, scale_op, {&logsumexp}, {&sums});
  }
  set_history(s, output, node);
  if (asks_sums) set_history(s, sums, node);
  if (!node) return {std::move(output), std::move(sums)};
  node->save(s, "query", kept[0]);
  node->save(s, "key", kept[1]);
  node->save(s, "value", kept[2]);
  node->save_output(s, "output", output);
  node->save(s, "logsumexp", logsumexp);
  return {std::move(output), std::move(sums)};
}

}  // namespace

Tensor flex_attention(Session& s, Tensor query, Tensor key, Tensor value) {
  return attend(s, std::move(query), std::move(key), std::move(value), {}, false).output;
}

AttentionWithSums flex_attention_with_sums(Session& s, Tensor query, Tensor key, Tensor value,
                                           std::int64_t window) {
  return attend(s, std::move(query), std::move(key), std::move(value), {window}, true);
}

}  // namespace shardscope::eager
