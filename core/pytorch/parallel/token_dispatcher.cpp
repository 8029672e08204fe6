#include "core/pytorch/parallel/token_dispatcher.h"

#include <array>
#include <cmath>
#include <utility>

#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/selection.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/selective.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager::parallel {
namespace {

constexpr Operator exchange_op{"c10d.alltoall_.default", OperatorKind::other};
/// Selective checkpointing keeps copies to the host, and no other aten._to_copy.
constexpr Operator to_host_op{"aten._to_copy.default to the host", OperatorKind::copy};

/// dist.all_to_all of a list of parts into another one; the current stream waits.
void exchange(Session& s, const ProcessGroup& group, const Tensors& sent, const Tensors& received) {
  std::int64_t elements_in = 0, elements_out = 0;
  std::vector<const TensorImpl*> in, out;
  for (const Tensor& part : sent) {
    elements_in += part.numel();
    in.push_back(part.impl());
  }
  for (const Tensor& part : received) {
    elements_out += part.numel();
    out.push_back(part.impl());
  }
  s.collective({.kind = OperationKind::all_to_all,
                .name = exchange_op.name,
                .group = GroupId::of(static_cast<std::size_t>(group.id)),
                .elements_in = elements_in,
                .elements_out = elements_out,
                .dtype = sent.front().dtype(),
                .stream = s.stream,
                .inputs = in,
                .outputs = out});
}

/// spmd_types' _AllToAllStack of (ranks, n).
Tensor exchanged_counts(Session& s, const ProcessGroup& group, const Tensor& counts) {
  const Tensors sent = unbind(s, counts, 0);
  Tensors received;
  for (const Tensor& part : sent) received.push_back(allocate(s, like(part), part.sizes()));
  exchange(s, group, sent, received);
  return stack(s, std::move(received));
}

/// `rows` over `parts`, the first ones one more.
std::vector<std::int64_t> even_parts(std::int64_t rows, int parts) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(parts), rows / parts);
  for (std::int64_t i = 0; i < rows % parts; ++i) ++sizes[static_cast<std::size_t>(i)];
  return sizes;
}

Tensor exchanged_rows(Session& s, const ProcessGroup& group, const Tensor& rows,
                      std::int64_t received_rows) {
  const Tensors sent = split_with_sizes(s, rows, even_parts(rows.size(0), group.size()), 0);
  Tensors received;
  for (const std::int64_t count : even_parts(received_rows, group.size()))
    received.push_back(allocate(s, like(rows), {count, rows.size(1)}));
  exchange(s, group, sent, received);
  return cat(s, std::move(received), 0);
}

/// spmd_types' _AllToAllUneven.
Tensor exchange_with_gradient(Session& s, const ProcessGroup& group, Tensor rows,
                              std::int64_t received) {
  const LetGo let_go{rows};
  const std::int64_t sent = rows.size(0);
  return apply_function(
      s, "_AllToAllUnevenBackward", {rows},
      [&](Session& in, const NodeRef&) -> Tensors {
        return {exchanged_rows(in, group, rows, received)};
      },
      [&group, sent](Session& in, Node&, Tensors& gradients) -> Tensors {
        const Tensor whole = contiguous(in, std::move(gradients[0]));
        return {exchanged_rows(in, group, whole, sent)};
      })[0];
}

/// counts.view(ranks, -1).sum(dim=1).to("cpu"); the host waits unless it is told not to.
void read_split(Session& s, const Tensor& counts, int ranks, bool waits) {
  const Tensor sums = sum(s, view(s, counts, {ranks, -1}), {1});
  as_one_operator(s, to_host_op, [&] {
    Tensor on_host = allocate(s, {.dtype = Dtype::int64, .device = Device::cpu}, sums.sizes());
    dispatched(s, to_host_op, {&sums}, {&on_host});
    if (waits) s.host_sync();
    return on_host;
  });
}

struct Order {
  Tensor rows, token_of, scores;
};

/// _local_reorder.
Order sorted_by_expert(Session& s, const Tensor& tokens, const Routing& routing) {
  const std::int64_t top_k = routing.experts.size(1);
  Order order;
  order.token_of = sort(s, view(s, routing.experts, {-1})).second;
  order.scores = index(s, view(s, routing.scores, {-1}), {order.token_of});
  order.token_of = floor_divide(s, order.token_of, top_k);
  order.rows = index(s, tokens, {order.token_of});
  return order;
}

/// cumsum - lengths.
Tensor starts_of(Session& s, const Tensor& lengths) {
  return sub(s, cumsum(s, lengths, 0), lengths);
}

/// _permute: from the order of ranks to that of experts.
void permute_to_experts(Session& s, int ranks, const Tensor& counts, Dispatched& to) {
  const std::int64_t here = counts.size(0) / ranks;
  const Tensor by_rank = view(s, counts, {ranks, here});
  Tensor starts = view(s, starts_of(s, counts), {ranks, here});
  const Tensor lengths = reshape(s, t(s, by_rank), {-1});
  starts = reshape(s, t(s, starts), {-1});
  const Like integers = like(counts);
  const Tensor segments =
      repeat_interleave(s, arange(s, lengths.size(0), integers), lengths, to.received);
  const Tensor output_starts = starts_of(s, lengths);
  {
    Tensor places = index(s, starts, {segments});
    places = add(s, std::move(places), arange(s, to.received, integers));
    Tensor shift = index(s, output_starts, {segments});
    to.places = sub(s, std::move(places), std::move(shift));
  }
  to.counts = sum(s, by_rank, {0});
  to.tokens = index(s, to.tokens, {to.places});
}

}  // namespace

Dispatched dispatch_tokens(Session& s, const ProcessGroup* ranks, double load, const Tensor& tokens,
                           const Routing& routing) {
  Order order = sorted_by_expert(s, tokens, routing);
  Dispatched result{.tokens = order.rows,
                    .counts = routing.counts,
                    .token_of = order.token_of,
                    .scores = order.scores,
                    .places = {},
                    .received = order.rows.size(0)};
  if (ranks == nullptr) return result;
  const int count = ranks->size();
  result.received = std::llround(static_cast<double>(result.received) * load);
  Tensor arriving;
  {
    const NoGrad no_grad(s);
    arriving = exchanged_counts(s, *ranks, view(s, routing.counts, {count, -1}));
    arriving = reshape(s, std::move(arriving), {-1});
    read_split(s, routing.counts, count, false);
    read_split(s, arriving, count, true);
  }
  result.tokens = exchange_with_gradient(s, *ranks, order.rows, result.received);
  permute_to_experts(s, count, arriving, result);
  return result;
}

Tensor combine_tokens(Session& s, const ProcessGroup* ranks, const Dispatched& dispatched,
                      Tensor routed, const Tensor& tokens) {
  if (ranks != nullptr) {
    // _unpermute.
    const Tensor as_it_came = new_empty(s, routed, routed.sizes());
    Tensor sent = index_put_(s, as_it_came, {dispatched.places}, std::move(routed));
    routed = exchange_with_gradient(s, *ranks, std::move(sent), dispatched.token_of.size(0));
  }
  const Tensor zeros = zeros_like(s, tokens);
  {
    const Dtype dtype = routed.dtype();
    Tensor wide = to(s, routed, Dtype::float32);
    Tensor scored = mul(s, std::move(wide), reshape(s, dispatched.scores, {-1, 1}));
    routed = to(s, std::move(scored), dtype);
  }
  const Tensor rows = expand(s, reshape(s, dispatched.token_of, {-1, 1}), {-1, tokens.size(1)});
  return deterministic_scatter_add(s, zeros, rows, routed);
}

}  // namespace shardscope::eager::parallel
