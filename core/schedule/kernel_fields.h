// The fields that a kernel's cost depends on, by the names that hardware profiles give them.
#pragma once

#include "core/schedule/kernel.h"

namespace shardscope {

/// Calls `body(key, pointer to member)` for each field of `K` that its cost depends on, in the
/// order in which profiles write them: all but the factors that change no cost (epsilon, scale,
/// betas, momentum, decay, clip, rope frequencies).
template <KernelStruct K, class Body>
constexpr void for_each_cost_field(const Body& body) {
  if constexpr (requires { &K::layout; }) body("layout", &K::layout);
  if constexpr (requires { &K::norm; }) body("norm", &K::norm);
  if constexpr (requires { &K::dtype; }) body("dtype", &K::dtype);
  if constexpr (requires { &K::gradient_dtype; }) body("gradient_dtype", &K::gradient_dtype);
  if constexpr (requires { &K::accumulate; }) body("accumulate", &K::accumulate);
  if constexpr (requires { &K::accumulate_input; }) body("accumulate_input", &K::accumulate_input);
  if constexpr (requires { &K::has_bias; }) body("has_bias", &K::has_bias);
  if constexpr (requires { &K::has_weight_gradient; })
    body("has_weight_gradient", &K::has_weight_gradient);
  if constexpr (requires { &K::has_residual; }) body("has_residual", &K::has_residual);
  if constexpr (requires { &K::nesterov; }) body("nesterov", &K::nesterov);
  if constexpr (requires { &K::has_clip; }) body("has_clip", &K::has_clip);
  if constexpr (requires { &K::has_copy; }) body("has_copy", &K::has_copy);
  if constexpr (requires { &K::has_gelu; }) body("has_gelu", &K::has_gelu);
  if constexpr (requires { &K::has_count; }) body("has_count", &K::has_count);
  if constexpr (requires { &K::rows; }) body("rows", &K::rows);
  if constexpr (requires { &K::in; }) body("in", &K::in);
  if constexpr (requires { &K::width; }) body("in", &K::width);
  if constexpr (requires { &K::features; }) body("in", &K::features);
  if constexpr (requires { &K::out; }) body("out", &K::out);
  if constexpr (requires { &K::vocabulary; }) body("out", &K::vocabulary);
  if constexpr (requires { &K::classes; }) body("out", &K::classes);
  if constexpr (requires { &K::batch; }) body("batch", &K::batch);
  if constexpr (requires { &K::length; }) body("length", &K::length);
  if constexpr (requires { &K::heads; }) body("heads", &K::heads);
  if constexpr (requires { &K::kv_heads; }) body("kv_heads", &K::kv_heads);
  if constexpr (requires { &K::head_dim; }) body("head_dim", &K::head_dim);
  if constexpr (requires { &K::q_stride; }) body("q_stride", &K::q_stride);
  if constexpr (requires { &K::kv_stride; }) body("kv_stride", &K::kv_stride);
  if constexpr (requires { &K::elements; }) body("elements", &K::elements);
  if constexpr (requires { &K::pieces; }) body("elements", &K::pieces);
  if constexpr (requires { &K::positions; }) body("positions", &K::positions);
  if constexpr (requires { &K::out_stride; }) body("out_stride", &K::out_stride);
  if constexpr (requires { &K::logits_stride; }) body("out_stride", &K::logits_stride);
}

}  // namespace shardscope
