#include "core/pytorch/parallel/latent_attention.h"

#include <utility>

#include "core/pytorch/engine/aten/complex.h"
#include "core/pytorch/engine/aten/flex_attention.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/parallel/mixture_modules.h"
#include "core/pytorch/parallel/sequence_shards.h"

namespace shardscope::eager::parallel {
namespace {

/// view_as_complex of neighbours, in float32.
Tensor as_complex(Session& s, const Tensor& x) {
  Dims sizes = x.sizes();
  sizes[-1] /= 2;
  sizes.push_back(2);
  return reshape(s, to(s, x, Dtype::float32), sizes);
}

/// ComplexRoPE: {queries, keys, positions}, all (B, T, H, D).
Tensors rotary_forward(Session& s, Module& me, const Arguments& arguments) {
  const Tensor &query = arguments[0], &key = arguments[1], &positions = arguments[2];
  const Tensor& table = me.buffer("cache");
  check_positions(s, positions, table.size(0));
  Tensor rows = table_rows(s, table, positions);
  Dims sizes = rows.sizes();
  sizes[-1] /= 2;
  sizes.push_back(2);
  rows = view(s, std::move(rows), sizes);
  const Tensor query_pairs = as_complex(s, query);
  const Tensor key_pairs = as_complex(s, key);
  const Tensor query_out = flatten(s, mul_complex(s, query_pairs, rows), 3);
  const Tensor key_out = flatten(s, mul_complex(s, key_pairs, rows), 3);
  Tensor turned_query = type_as(s, query_out, query);
  Tensor turned_key = type_as(s, key_out, key);
  return {std::move(turned_query), std::move(turned_key)};
}

Tensor projected_queries(Session& s, Module& me, const Tensor& x) {
  if (has_child(me, "wq")) return call_one(s, me.child("wq"), {x});
  const Tensor latent = call_one(s, me.child("wq_a"), {x});
  const Tensor normed = call_one(s, me.child("q_norm"), {latent});
  return call_one(s, me.child("wq_b"), {normed});
}

/// Attention. All variables live until it returns.
Module::Forward attention_forward(const LatentAttention& form, const ProcessGroup* context) {
  return [form, context](Session& s, Module& me, const Arguments& arguments) -> Tensors {
    const Tensor &x = arguments[0], &positions = arguments[1];
    const std::int64_t batch = x.size(0), length = x.size(1);
    Tensor query = view(s, projected_queries(s, me, x), {batch, length, -1, form.key()});
    Tensors of_query = split_with_sizes(s, query, {form.plain, form.rotary}, -1);
    Tensors latents =
        split_with_sizes(s, call_one(s, me.child("wkv_a"), {x}), {form.rank, form.rotary}, -1);
    {
      const Tensor one_head = unsqueeze(s, latents[1], 2);
      Tensors turned = call(s, me.child("rope"), {of_query[1], one_head, positions});
      of_query[1] = std::move(turned[0]);
      latents[1] = std::move(turned[1]);
    }
    query = cat(s, {of_query[0], of_query[1]}, -1);
    Tensor both;
    {
      const Tensor normed = call_one(s, me.child("kv_norm"), {latents[0]});
      both = call_one(s, me.child("wkv_b"), {normed});
    }
    latents[0].reset();
    both = view(s, std::move(both), {batch, length, -1, form.plain + form.value});
    const Tensors parts = split_with_sizes(s, both, {form.plain, form.value}, -1);
    const Tensor rotary_key = expand(s, latents[1], {-1, -1, parts[0].size(2), -1});
    const Tensor key = cat(s, {parts[0], rotary_key}, -1);
    Tensor out;
    {
      const Tensor all_keys = with_all_tokens(s, context, key),
                   all_values = with_all_tokens(s, context, parts[1]);
      out = transpose(s,
                      flex_attention(s, transpose(s, query, 1, 2), transpose(s, all_keys, 1, 2),
                                     transpose(s, all_values, 1, 2)),
                      1, 2);
    }
    out = view(s, contiguous(s, out), {batch, length, -1});
    return {call_one(s, me.child("wo"), {out})};
  };
}

}  // namespace

void add_complex_rotary(Session& s, Module& attention, std::int64_t length, std::int64_t columns) {
  Module& rope = add_module(attention, "rope", "ComplexRoPE");
  add_buffer(s, rope, "cache", {length, columns});
  rope.forward = rotary_forward;
}

void add_latent_attention(Session& s, Module& block, const MixtureOptions& o) {
  const LatentAttention& form = *o.shape.latent;
  const std::int64_t width = o.shape.dim, heads = o.shape.heads / tensor_ranks(o);
  Module& attention = add_module(block, "attention", "Attention");
  const std::int64_t queries = heads * form.key();
  if (form.query_rank == 0) {
    add_linear(s, attention, "wq", o, {queries, width});
  } else {
    add_linear(s, attention, "wq_a", o, {form.query_rank, width});
    add_norm(s, attention, "q_norm", o.dtype, form.query_rank);
    add_linear(s, attention, "wq_b", o, {queries, form.query_rank});
  }
  add_linear(s, attention, "wkv_a", o, {form.rank + form.rotary, width});
  add_norm(s, attention, "kv_norm", o.dtype, form.rank);
  add_linear(s, attention, "wkv_b", o, {heads * (form.plain + form.value), form.rank});
  add_row_linear(s, attention, "wo", o, {width, o.shape.heads * form.value});
  add_complex_rotary(s, attention, o.length, form.rotary);
  attention.forward = with_whole_sequence(o.tensor, attention_forward(form, o.context));
}

}  // namespace shardscope::eager::parallel
