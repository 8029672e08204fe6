#include "core/pytorch/engine/models/fused_head.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/matmul_out.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr std::int64_t no_label = -100;
constexpr std::int64_t rows_of_a_tile = 4096;      // TOKEN_CHUNK_SIZE
constexpr std::int64_t columns_of_a_tile = 32768;  // _CHUNKED_LOGPROB_CHUNK_SIZE

/// The labelled rows, the head's weight and the rows' labels.
struct Rows {
  Tensor hidden, weight, targets;
  Dtype computes;
};

Tensor tile_memory(Session& s, const Rows& rows) {
  const std::int64_t most = std::min(rows.hidden.size(0), rows_of_a_tile);
  return empty(s, {most, columns_of_a_tile}, like(rows.hidden, rows.computes));
}

struct TileRange {
  std::int64_t begin, end;
};
TileRange range_from(std::int64_t begin, std::int64_t size, std::int64_t of) {
  return {begin, std::min(begin + size, of)};
}

/// _forward_kernel's running statistics of each row.
struct Statistics {
  Statistics(Session& s, const Tensor& hidden) {
    const Dims rows{hidden.size(0)};
    const Like number = like(hidden, Dtype::float32);
    greatest = full(s, rows, number);
    for (Tensor* each : {&exponentials, &weighted, &squares, &logits})
      *each = zeros(s, rows, number);
    greatest_before = full(s, rows, number);
    target = zeros(s, rows, number);
  }
  Tensor greatest, exponentials, weighted, squares, logits, greatest_before, target;
};

void fold_tiles(Session& s, const Rows& rows, const Statistics& all) {
  static constexpr Operator fold_op{"trl._forward_kernel", OperatorKind::reduction};
  const Tensor memory = tile_memory(s, rows);
  const std::int64_t count = rows.hidden.size(0), classes = rows.weight.size(0);
  Tensor hidden;
  for (std::int64_t row = 0; row < count; row += rows_of_a_tile) {
    const TileRange r = range_from(row, rows_of_a_tile, count);
    hidden = to(s, slice(s, rows.hidden, 0, r.begin, r.end), rows.computes);
    for (std::int64_t column = 0; column < classes; column += columns_of_a_tile) {
      const TileRange c = range_from(column, columns_of_a_tile, classes);
      const Tensor tile = slice(s, slice(s, memory, 0, 0, r.end - r.begin), 1, 0, c.end - c.begin);
      mm_out(s, hidden, t(s, to(s, slice(s, rows.weight, 0, c.begin, c.end), rows.computes)), tile);
      dispatched(s, fold_op, {&tile, &rows.targets},
                 {&all.greatest, &all.exponentials, &all.target});
    }
  }
}

struct Outputs {
  Tensor log_probabilities, log_sums, entropy, mean_logits, top1;
};

Outputs head_forward(Session& s, const Rows& rows, const TiledHead& settings) {
  const Statistics all(s, rows.hidden);
  fold_tiles(s, rows, all);
  Outputs result;
  result.log_sums = add(s, all.greatest, log(s, all.exponentials));
  result.log_probabilities = sub(s, all.target, result.log_sums);
  if (settings.entropy)
    result.entropy = sub(s, result.log_sums, div(s, all.weighted, all.exponentials));
  if (settings.mean_logits) result.mean_logits = div(s, all.logits, rows.weight.size(0));
  if (settings.top1)
    result.top1 = bitwise_and(s, compare(s, Comparison::ge, all.target, all.greatest),
                              compare(s, Comparison::gt, all.target, all.greatest_before));
  return result;
}

/// _addmm_fp32: halves are multiplied into a sum in float32 as they are.
void add_product(Session& s, const Tensor& sum, const Tensor& a, const Tensor& b) {
  const bool is_half = a.dtype() == Dtype::bfloat16 || a.dtype() == Dtype::float16;
  if (is_half) return addmm_out(s, sum, a, b);
  addmm_(s, sum, to(s, a, Dtype::float32), to(s, b, Dtype::float32));
}

Tensors head_backward(Session& s, Node& node, Tensors& gradients, Dtype computes) {
  static constexpr Operator fold_op{"trl._backward_kernel", OperatorKind::pointwise};
  const Rows rows{node.saved(s, "hidden"), node.saved(s, "weight"), node.saved(s, "targets"),
                  computes};
  const Tensor log_sums = node.saved(s, "log_z");
  const Like number = like(rows.hidden, Dtype::float32);
  Tensor of_hidden, of_weight;
  if (node.needs(0)) of_hidden = zeros(s, rows.hidden.sizes(), number);
  if (node.needs(1)) of_weight = zeros(s, rows.weight.sizes(), number);
  const Tensor memory = tile_memory(s, rows);
  const std::int64_t count = rows.hidden.size(0), classes = rows.weight.size(0);
  // Python's variables hold what they held until the next is there.
  Tensor hidden, weight;
  for (std::int64_t row = 0; row < count; row += rows_of_a_tile) {
    const TileRange r = range_from(row, rows_of_a_tile, count);
    hidden = to(s, slice(s, rows.hidden, 0, r.begin, r.end), computes);
    for (std::int64_t column = 0; column < classes; column += columns_of_a_tile) {
      const TileRange c = range_from(column, columns_of_a_tile, classes);
      weight = to(s, slice(s, rows.weight, 0, c.begin, c.end), computes);
      const Tensor tile = slice(s, slice(s, memory, 0, 0, r.end - r.begin), 1, 0, c.end - c.begin);
      mm_out(s, hidden, t(s, weight), tile);
      dispatched(s, fold_op, {&tile, &rows.targets, &log_sums, &gradients[0]}, {&tile});
      if (of_hidden) add_product(s, slice(s, of_hidden, 0, r.begin, r.end), tile, weight);
      if (of_weight) add_product(s, slice(s, of_weight, 0, c.begin, c.end), t(s, tile), hidden);
    }
  }
  return {of_hidden ? to(s, of_hidden, rows.hidden.dtype()) : Tensor(),
          of_weight ? to(s, of_weight, rows.weight.dtype()) : Tensor()};
}

/// x.new_zeros(mask.shape).masked_scatter(mask, x).
Tensor spread_over(Session& s, const Tensor& mask, const Tensor& x) {
  static constexpr Operator op{"aten.masked_scatter.default", OperatorKind::indexing};
  static constexpr Operator select_op{"aten.masked_select.default", OperatorKind::indexing};
  const auto formula = [sizes = x.sizes()](Session& in, Node& node, Tensors& gradients) -> Tensors {
    const Tensor kept = node.saved(in, "mask");
    const Tensor selected = allocate(in, like(gradients[0]), sizes);
    dispatched(in, select_op, {&gradients[0], &kept}, {&selected});
    return {selected};
  };
  const Tensor zeros = new_zeros(s, x, mask.sizes());
  const NodeRef node = make_node(s, "MaskedScatterBackward0", {&x}, formula);
  if (node) node->save(s, "mask", mask);
  const Tensor result = allocate(s, like(zeros), zeros.sizes());
  const Tensor places = allocate(s, like(mask, Dtype::int64), mask.sizes());  // maskPrefixSum
  dispatched(s, op, {&zeros, &mask, &x}, {&result});
  set_history(s, result, node);
  return result;
}

/// _ChunkedLogProbFunction.apply; what is not differentiable is given in `outputs` alone.
Tensors per_token(Session& s, const Rows& rows, const TiledHead& settings, Outputs& outputs) {
  const auto run = [&](Session& in, const NodeRef& node) -> Tensors {
    outputs = head_forward(in, rows, settings);
    if (node) {
      node->save(in, "hidden", rows.hidden);
      node->save(in, "weight", rows.weight);
      node->save(in, "targets", rows.targets);
      node->save(in, "log_z", outputs.log_sums);
    }
    Tensors result{outputs.log_probabilities};
    if (outputs.entropy) result.push_back(outputs.entropy);
    return result;
  };
  const auto back = [computes = rows.computes](Session& in, Node& node,
                                               Tensors& gradients) -> Tensors {
    return head_backward(in, node, gradients, computes);
  };
  return apply_function(s, "ChunkedLogProbFunctionBackward", {rows.hidden, rows.weight}, run, back);
}

}  // namespace

Tensors fused_head(Session& s, const FusedHeadInput& input) {
  const std::int64_t batch = input.labels.size(0), length = input.labels.size(1);
  const std::int64_t labelled = batch * (length - std::max<std::int64_t>(input.settings.prompt, 1));
  const Tensor hidden = slice(s, input.hidden, 1, 0, length - 1);
  const Tensor labels = slice(s, input.labels, 1, 1);
  const Tensor mask = compare(s, Comparison::ne, labels, no_label);
  Outputs outputs;
  Tensors tokens;
  {
    const Rows rows{index_by_mask(s, hidden, mask, labelled), input.weight,
                    index_by_mask(s, labels, mask, labelled),
                    s.autocast.enabled ? s.autocast.dtype : input.hidden.dtype()};
    tokens = per_token(s, rows, input.settings, outputs);
  }
  Tensors result{Tensor(), spread_over(s, mask, tokens[0])};
  if (input.settings.entropy) result.push_back(spread_over(s, mask, tokens[1]));
  for (const Tensor& more : {outputs.mean_logits, outputs.top1})
    if (more) result.push_back(spread_over(s, mask, more));
  result[0] = div(s, neg(s, sum(s, result[1])), clamp(s, sum(s, mask)));
  return result;
}

}  // namespace shardscope::eager
