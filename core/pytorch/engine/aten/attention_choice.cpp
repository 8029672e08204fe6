#include "core/pytorch/engine/aten/attention_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "core/base/error.h"

namespace shardscope::eager {
namespace {

/// What the checks ask, in their own words.
struct Problem {
  const Session& s;
  const AttentionArguments& of;

  int capability() const { return s.settings.compute_capability; }
  int major() const { return capability() / 10; }
  bool is_half() const {
    return of.query.dtype() == Dtype::float16 || of.query.dtype() == Dtype::bfloat16;
  }
  bool requires_grad() const {
    return s.grad_enabled &&
           (of.query.requires_grad() || of.key.requires_grad() || of.value.requires_grad());
  }
  std::int64_t head_size() const { return of.query.size(-1); }
  std::int64_t value_size() const { return of.value.size(-1); }
};

using Check = bool (*)(const Problem&);

bool passes(std::span<const Check> checks, const Problem& problem) {
  return std::all_of(checks.begin(), checks.end(), [&](Check check) { return check(problem); });
}

bool has_four_dimensions(const Problem& p) {
  return p.of.query.dim() == 4 && p.of.key.dim() == 4 && p.of.value.dim() == 4;
}

bool has_no_mask(const Problem& p) { return !p.of.mask; }

bool has_no_dropout(const Problem& p) { return p.of.dropout == 0; }

bool fits(std::int64_t of_mask, std::int64_t wanted) { return of_mask == wanted || of_mask == 1; }

bool mask_broadcasts(const Problem& p) {
  const Tensor& mask = p.of.mask;
  if (!mask) return true;
  if (mask.requires_grad() || !fits(mask.size(-2), p.of.query.size(2)) ||
      !fits(mask.size(-1), p.of.key.size(2)))
    return false;
  if (mask.dim() == 2) return true;
  return mask.dim() == 4 && fits(mask.size(0), p.of.query.size(0)) &&
         fits(mask.size(1), p.of.query.size(1));
}

bool same_head_sizes(const Problem& p) {
  return p.of.key.size(-1) == p.head_size() && p.value_size() == p.head_size();
}

bool has_tokens(const Problem& p) { return p.of.query.size(-2) != 0 && p.of.key.size(-2) != 0; }

bool same_batch(const Problem& p) {
  return p.of.key.size(0) == p.of.query.size(0) && p.of.value.size(0) == p.of.query.size(0);
}

/// check_batch_size_and_num_heads_dense; `keys_as_values`: as many heads of keys as of values.
bool heads_match(const Problem& p, bool keys_as_values) {
  const std::int64_t query = p.of.query.size(-3), key = p.of.key.size(-3),
                     value = p.of.value.size(-3);
  if (!same_batch(p)) return false;
  if (p.of.grouped_queries)
    return (!keys_as_values || key == value) && key > 0 && query % key == 0 && value > 0 &&
           query % value == 0;
  return (query == key && query == value) || (query > 0 && key == 1 && value == 1);
}
bool heads_match_all(const Problem& p) { return heads_match(p, true); }
bool heads_match_query(const Problem& p) { return heads_match(p, false); }

bool last_strides_are_one(const Problem& p, bool one_element_passes) {
  const bool ones = p.of.query.strides().back() == 1 && p.of.key.strides().back() == 1 &&
                    p.of.value.strides().back() == 1;
  const bool mask =
      !p.of.mask || p.s.settings.device == Device::cpu || p.of.mask.strides().back() == 1;
  return mask && (ones || (one_element_passes && p.head_size() == 1));
}
bool strides_are_one(const Problem& p) { return last_strides_are_one(p, false); }
bool strides_are_one_or_size(const Problem& p) { return last_strides_are_one(p, true); }

bool same_dtypes(const Problem& p) {
  return p.of.key.dtype() == p.of.query.dtype() && p.of.value.dtype() == p.of.query.dtype();
}

bool is_low_precision(const Problem& p) {
  const bool known = p.major() >= 8 ? p.is_half() : p.of.query.dtype() == Dtype::float16;
  return same_dtypes(p) && known;
}

bool is_float(const Problem& p) {
  return same_dtypes(p) && (p.is_half() || p.of.query.dtype() == Dtype::float32 ||
                            p.of.query.dtype() == Dtype::float64);
}

bool efficient_knows_dtype(const Problem& p) {
  const Dtype dtype = p.of.query.dtype();
  return same_dtypes(p) && (dtype == Dtype::float16 || dtype == Dtype::float32 ||
                            (dtype == Dtype::bfloat16 && p.major() >= 8));
}

bool has_flash_hardware(const Problem& p) { return p.capability() >= 80 && p.capability() <= 121; }
bool has_efficient_hardware(const Problem& p) {
  return p.capability() >= 50 && p.capability() <= 121;
}

bool flash_head_size(const Problem& p) { return same_head_sizes(p) && p.head_size() <= 256; }

/// Large heads in training where shared memory is small.
bool flash_trains_head_size(const Problem& p) {
  const bool small = (p.capability() >= 86 && p.capability() <= 89) || p.major() == 12;
  if (!small || !p.requires_grad()) return true;
  return p.head_size() <= 192 || (p.of.dropout == 0 && p.head_size() > 224);
}

bool flash_is_square(const Problem& p) {
  return !p.of.causal || p.of.query.size(-2) == p.of.key.size(-2);
}

/// minimum_gemm_alignment, in elements.
std::int64_t gemm_alignment(const Problem& p) {
  const std::int64_t least = p.major() >= 8 ? 4 : 1;
  const bool tensor_cores = p.major() >= 8 || (p.major() == 7 && p.is_half());
  return tensor_cores ? std::max<std::int64_t>(least, p.is_half() ? 8 : 4) : least;
}

bool efficient_head_size(const Problem& p) {
  const std::int64_t alignment = gemm_alignment(p);
  return p.of.key.size(-1) == p.head_size() && p.head_size() > 0 &&
         p.head_size() % alignment == 0 && p.value_size() > 0 && p.value_size() % alignment == 0;
}

bool efficient_is_aligned(const Problem& p) {
  if (p.major() < 8) return true;
  const auto aligned = [&](const Tensor& t) {
    return t.numel() == 0 || t->layout.offset % gemm_alignment(p) == 0;
  };
  return aligned(p.of.query) && aligned(p.of.key) && aligned(p.of.value);
}

bool cudnn_dropout(const Problem& p) {
  return p.of.dropout * 16.0 == std::floor(p.of.dropout * 16.0);
}

/// With the cuDNN that PyTorch 2.15 brings; its frontend knows heads of 256.
bool cudnn_shapes(const Problem& p) {
  constexpr std::int64_t most = 65535;
  const std::int64_t limit = p.capability() == 90 || p.major() == 10 ? 256 : 128;
  return p.of.query.size(0) <= most && p.of.query.size(1) <= most && p.head_size() <= limit &&
         p.value_size() <= limit && p.head_size() % 8 == 0 && p.value_size() % 8 == 0 &&
         p.of.key.size(2) != 1 && (p.of.dropout == 0 || p.of.query.size(2) != 1);
}

/// check_cudnn_d256_bprop_head_dim.
bool cudnn_trains_head_size(const Problem& p) {
  const std::int64_t key = p.head_size(), value = p.value_size();
  if (!p.requires_grad() || (p.capability() != 90 && p.major() != 10)) return true;
  return (key <= 128 && value <= 128) || (key == 192 && value == 128) ||
         (key == 256 && value == 256);
}

constexpr Check flash_checks[] = {has_four_dimensions,
                                  has_no_mask,
                                  flash_head_size,
                                  has_flash_hardware,
                                  flash_trains_head_size,
                                  flash_is_square,
                                  is_low_precision,
                                  heads_match_all,
                                  has_tokens,
                                  strides_are_one_or_size};
constexpr Check efficient_checks[] = {
    has_efficient_hardware, has_four_dimensions,  efficient_head_size,
    efficient_is_aligned,   has_tokens,           strides_are_one,
    heads_match_all,        efficient_knows_dtype};
constexpr Check cudnn_checks[] = {has_four_dimensions,     is_low_precision,  mask_broadcasts,
                                  has_flash_hardware,      cudnn_dropout,     has_tokens,
                                  strides_are_one_or_size, heads_match_query, cudnn_shapes,
                                  cudnn_trains_head_size};
constexpr Check cpu_flash_checks[] = {
    has_no_dropout,  has_four_dimensions, heads_match_all, mask_broadcasts,
    same_head_sizes, has_tokens,          strides_are_one, is_float};

bool can_use(AttentionKernel kernel, const Problem& problem) {
  const AttentionSwitches& on = problem.s.settings.attention;
  switch (kernel) {
    case AttentionKernel::flash:
      return on.flash && passes(flash_checks, problem);
    case AttentionKernel::efficient:
      return on.efficient && passes(efficient_checks, problem);
    case AttentionKernel::cudnn:
      return on.cudnn && passes(cudnn_checks, problem);
    case AttentionKernel::math:
      break;
  }
  return on.math;
}

/// cuDNN comes first where it is preferred (check_prefer_cudnn_attention), last elsewhere.
std::array<AttentionKernel, 4> cuda_order(const Problem& problem) {
  using enum AttentionKernel;
  const bool prefers_cudnn = problem.major() == 9 || problem.major() == 10;
  return prefers_cudnn ? std::array{cudnn, flash, efficient, math}
                       : std::array{flash, efficient, math, cudnn};
}

}  // namespace

AttentionKernel choose_attention_kernel(const Session& s, const AttentionArguments& arguments) {
  const Problem problem{s, arguments};
  if (s.settings.device == Device::cpu) {
    if (s.settings.attention.flash && passes(cpu_flash_checks, problem))
      return AttentionKernel::flash;
    if (s.settings.attention.math) return AttentionKernel::math;
  } else {
    for (const AttentionKernel kernel : cuda_order(problem))
      if (can_use(kernel, problem)) return kernel;
  }
  throw Error({.where = "scaled_dot_product_attention",
               .what = fmt::format("no kernel that is switched on takes heads of {} in {}",
                                   arguments.query.size(-1), name_of(arguments.query.dtype())),
               .way_out = "allow the math kernel"});
}

}  // namespace shardscope::eager
