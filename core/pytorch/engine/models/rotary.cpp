#include "core/pytorch/engine/models/rotary.h"

#include "core/pytorch/engine/aten/complex.h"
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// dynamic_frequency_update, modeling_rope_utils.py, of sequences that fit: two questions.
void ask_dynamic(Session& s, const Tensor& positions) {
  const Tensor length = add(s, max(s, positions), 1);
  item(s, compare(s, Comparison::gt, length, 1));
  item(s, compare(s, Comparison::lt, length, 1));
}

bool is_dynamic(const ModelConfig& config) {
  const auto parameters = config.find("rope_parameters");
  const auto type = parameters ? parameters->find("rope_type") : std::nullopt;
  if (!type || type->string() != "dynamic") return false;
  // Hunyuan's frequencies are made once where alpha is given: "ntk_alpha".
  const auto family = config.find("model_type");
  const auto alpha = parameters->find("alpha");
  const bool is_hunyuan = family && family->string().starts_with("hunyuan");
  return !(is_hunyuan && alpha && alpha->is_number() && alpha->number() != 0);
}

/// How cosines and sines come out of the frequencies.
struct RotaryForm {
  bool casts = true;    ///< to the hidden states' dtype
  bool paired = false;  ///< each frequency twice, one beside the other; else all of them twice
};

/// {hidden states, position ids} and, where there is one for each type of layer, the inverse
/// frequencies.
Module::Forward rotary_embedding(const Context& context, RotaryForm form) {
  return [dynamic = is_dynamic(context->config), form](Session& s, Module& module,
                                                       const Arguments& arguments) -> Tensors {
    const NoGrad no_grad(s);
    if (dynamic) ask_dynamic(s, arguments[1]);
    const Tensor& inverse = arguments.tensors.size() > 2 ? arguments[2] : module.buffer("inv_freq");
    Tensor frequencies = mul(s, to(s, unsqueeze(s, arguments[1], -1), Dtype::float32), inverse);
    Tensor angles = form.paired ? repeat_interleave(s, frequencies, 2, -1)
                                : cat(s, {frequencies, frequencies}, -1);
    Tensor cosines = mul(s, cos(s, angles), 1.0);
    Tensor sines = mul(s, sin(s, angles), 1.0);
    const LetGo locals(frequencies, angles, cosines, sines);
    if (!form.casts) return {cosines, sines};
    Tensor cast_cosines = to(s, cosines, arguments[0].dtype());
    Tensor cast_sines = to(s, sines, arguments[0].dtype());
    return {std::move(cast_cosines), std::move(cast_sines)};
  };
}

}  // namespace

Module::Forward rotary_embedding_forward(const Context& context, const Module&) {
  return rotary_embedding(context, {});
}

Module::Forward float_rotary_embedding_forward(const Context& context, const Module&) {
  return rotary_embedding(context, {.casts = false});
}

Module::Forward paired_rotary_embedding_forward(const Context& context, const Module&) {
  return rotary_embedding(context, {.paired = true});
}

Tensor rotate_half(Session& s, const Tensor& x) {
  const std::int64_t half = x.size(-1) / 2;
  const Tensor first = slice(s, x, -1, 0, half);
  const Tensor second = slice(s, x, -1, half);
  return cat(s, {neg(s, second), first}, -1);
}

std::pair<Tensor, Tensor> apply_rotary(Session& s, const Tensor& query, const Tensor& key,
                                       const Tensor& cos, const Tensor& sin) {
  const Tensor cosines = unsqueeze(s, cos, 1);
  const Tensor sines = unsqueeze(s, sin, 1);
  const auto turned = [&](const Tensor& x) {
    Tensor kept = mul(s, x, cosines);
    return add(s, std::move(kept), mul(s, rotate_half(s, x), sines));
  };
  Tensor turned_query = turned(query);
  Tensor turned_key = turned(key);
  return {std::move(turned_query), std::move(turned_key)};
}

std::pair<Tensor, Tensor> apply_float_rotary(Session& s, const Tensor& query, const Tensor& key,
                                             const Tensor& cos, const Tensor& sin) {
  const auto [turned_query, turned_key] = apply_rotary(s, query, key, cos, sin);
  Tensor cast_query = to(s, turned_query, query.dtype());
  Tensor cast_key = to(s, turned_key, key.dtype());
  return {std::move(cast_query), std::move(cast_key)};
}

std::pair<Tensor, Tensor> apply_partial_rotary(Session& s, const Tensor& query, const Tensor& key,
                                               const Tensor& cos, const Tensor& sin) {
  const Tensor cosines = unsqueeze(s, cos, 1);
  const Tensor sines = unsqueeze(s, sin, 1);
  const std::int64_t turned_size = cosines.size(-1);
  const Tensor query_part = indexed_slice(s, query, -1, 0, turned_size);
  const Tensor query_rest = indexed_slice(s, query, -1, turned_size);
  const Tensor key_part = indexed_slice(s, key, -1, 0, turned_size);
  const Tensor key_rest = indexed_slice(s, key, -1, turned_size);
  const auto turned = [&](const Tensor& part, const Tensor& rest) {
    Tensor kept = mul(s, part, cosines);
    const Tensor sum = add(s, std::move(kept), mul(s, rotate_half(s, part), sines));
    return cat(s, {sum, rest}, -1);
  };
  Tensor turned_query = turned(query_part, query_rest);
  Tensor turned_key = turned(key_part, key_rest);
  return {std::move(turned_query), std::move(turned_key)};
}

std::pair<Tensor, Tensor> apply_half_rotary(Session& s, const Tensor& query, const Tensor& key,
                                            const Tensor& cos, const Tensor& sin) {
  const Tensor cosines = unsqueeze(s, cos, 1);
  const Tensor sines = unsqueeze(s, sin, 1);
  const auto turned = [&](const Tensor& x) {
    const Tensors halves = chunk(s, x, 2, -1);
    const auto product = [&](std::size_t half, const Tensor& by) {
      return mul(s, halves[half], by);
    };
    Tensor first = sub(s, product(0, cosines), product(1, sines));
    Tensor second = add(s, product(1, cosines), product(0, sines));
    const LetGo locals{first, second};
    return cat(s, {first, second}, -1);
  };
  Tensor turned_query = turned(query);
  Tensor turned_key = turned(key);
  return {std::move(turned_query), std::move(turned_key)};
}

Tensor rotate_every_two(Session& s, const Tensor& x) {
  const Tensor even = slice(s, x, 3, 0, to_the_end, 2);
  const Tensor odd = slice(s, x, 3, 1, to_the_end, 2);
  const Tensor pairs = stack(s, {neg(s, odd), even}, -1);
  return flatten(s, pairs, -2);
}

namespace {

/// The first of the head's dimensions are turned, of query and key, and then joined with the rest.
std::pair<Tensor, Tensor> turned_and_joined(Session& s, const Tensor& query, const Tensor& key,
                                            const Tensor& cosines, const Tensor& sines,
                                            Tensor (*rotate)(Session& s, const Tensor& x)) {
  const std::int64_t size = cosines.size(-1);
  const Tensor query_part = indexed_slice(s, query, -1, 0, size);
  const Tensor query_rest = indexed_slice(s, query, -1, size);
  const Tensor key_part = indexed_slice(s, key, -1, 0, size);
  const Tensor key_rest = indexed_slice(s, key, -1, size);
  const auto turned = [&](const Tensor& part) {
    Tensor kept = mul(s, part, cosines);
    return add(s, std::move(kept), mul(s, rotate(s, part), sines));
  };
  Tensor turned_query = turned(query_part);
  Tensor turned_key = turned(key_part);
  turned_query = cat(s, {turned_query, query_rest}, -1);
  turned_key = cat(s, {turned_key, key_rest}, -1);
  return {std::move(turned_query), std::move(turned_key)};
}

}  // namespace

std::pair<Tensor, Tensor> apply_neox_rotary(Session& s, const Tensor& query, const Tensor& key,
                                            const Tensor& cos, const Tensor& sin) {
  const Tensor cosines = unsqueeze(s, cos, 1);
  const Tensor sines = unsqueeze(s, sin, 1);
  return turned_and_joined(s, query, key, cosines, sines, rotate_half);
}

namespace {

/// The first half of (B, T, D), each value twice, beside the heads.
Tensor in_pairs(Session& s, const Tensor& given) {
  const Tensor by_head = unsqueeze(s, given, 1);
  const Tensor half = indexed_slice(s, by_head, -1, 0, by_head.size(-1) / 2);
  return repeat_interleave(s, half, 2, 3);
}

}  // namespace

std::pair<Tensor, Tensor> apply_interleaved_rotary(Session& s, const Tensor& query,
                                                   const Tensor& key, const Tensor& cos,
                                                   const Tensor& sin) {
  const Tensor cosines = in_pairs(s, cos);
  const Tensor sines = in_pairs(s, sin);
  return turned_and_joined(s, query, key, cosines, sines, rotate_every_two);
}

std::pair<Tensor, Tensor> apply_float_interleaved_rotary(Session& s, const Tensor& query,
                                                         const Tensor& key, const Tensor& cos,
                                                         const Tensor& sin) {
  const Tensor cosines = in_pairs(s, cos);
  const Tensor sines = in_pairs(s, sin);
  const auto turned = [&](const Tensor& x) {
    Tensor kept = mul(s, to(s, x, Dtype::float32), cosines);
    Tensor rotated = to(s, rotate_every_two(s, x), Dtype::float32);
    return add(s, std::move(kept), mul(s, std::move(rotated), sines));
  };
  const Tensor turned_query = turned(query);
  const Tensor turned_key = turned(key);
  Tensor cast_query = to(s, turned_query, query.dtype());
  Tensor cast_key = to(s, turned_key, key.dtype());
  return {std::move(cast_query), std::move(cast_key)};
}

std::pair<Tensor, Tensor> apply_float_paired_rotary(Session& s, const Tensor& query,
                                                    const Tensor& key, const Tensor& cos,
                                                    const Tensor& sin) {
  const Tensor wide_query = to(s, query, Dtype::float32);
  const Tensor wide_key = to(s, key, Dtype::float32);
  const Tensor cosines = unsqueeze(s, cos, 1);
  const Tensor sines = unsqueeze(s, sin, 1);
  const auto turned = [&](const Tensor& x) {
    Tensor kept = mul(s, x, cosines);
    return add(s, std::move(kept), mul(s, rotate_every_two(s, x), sines));
  };
  const Tensor turned_query = turned(wide_query);
  const Tensor turned_key = turned(wide_key);
  Tensor cast_query = to(s, turned_query, query.dtype());
  Tensor cast_key = to(s, turned_key, key.dtype());
  return {std::move(cast_query), std::move(cast_key)};
}

std::pair<Tensor, Tensor> apply_paired_rotary(Session& s, const Tensor& query, const Tensor& key,
                                              const Tensor& cos, const Tensor& sin) {
  const auto of_pairs = [&](const Tensor& given) {
    return unsqueeze(s, indexed_slice(s, given, -1, 0, given.size(-1) / 2), 1);
  };
  const Tensor cosines = of_pairs(cos);
  const Tensor sines = of_pairs(sin);
  const auto every_second = [&](const Tensor& x, std::int64_t first) {
    return slice(s, x, 3, first, to_the_end, 2);
  };
  const Tensor query_even = every_second(query, 0), query_odd = every_second(query, 1);
  const Tensor key_even = every_second(key, 0), key_odd = every_second(key, 1);
  const auto turned = [&](const Tensor& even, const Tensor& odd) {
    Tensor first = mul(s, even, cosines);
    first = sub(s, std::move(first), mul(s, odd, sines));
    Tensor second = mul(s, odd, cosines);
    second = add(s, std::move(second), mul(s, even, sines));
    const LetGo list{second, first};  // as Python lets go of a list's elements, the last one first
    return cat(s, {first, second}, -1);
  };
  Tensor turned_query = turned(query_even, query_odd);
  Tensor turned_key = turned(key_even, key_odd);
  return {std::move(turned_query), std::move(turned_key)};
}

namespace {

Tensor as_pairs(Session& s, const Tensor& heads) {
  return view(s, to(s, heads, Dtype::float32),
              {heads.size(0), heads.size(1), heads.size(2), heads.size(3) / 2, 2});
}

}  // namespace

std::pair<Tensor, Tensor> apply_complex_rotary(Session& s, const Tensor& query, const Tensor& key,
                                               const Tensor& rotations) {
  const Tensor query_pairs = as_pairs(s, query);
  const Tensor key_pairs = as_pairs(s, key);
  const Tensor query_out = flatten(s, mul_complex(s, query_pairs, rotations), 3);
  const Tensor key_out = flatten(s, mul_complex(s, key_pairs, rotations), 3);
  Tensor turned_query = type_as(s, query_out, query);
  Tensor turned_key = type_as(s, key_out, key);
  return {std::move(turned_query), std::move(turned_key)};
}

}  // namespace shardscope::eager
