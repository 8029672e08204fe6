#include "core/pytorch/engine/aten/attention.h"

#include "core/pytorch/engine/aten/padding.h"
#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Flash takes heads of multiples of 8 only: the others are padded and the output cut again.
Tensor padded_flash_attention(Session& s, const AttentionArguments& given) {
  constexpr std::int64_t alignment = 8;
  const std::int64_t size = given.query.size(-1);
  const auto pad = [&](const Tensor& t) {
    const std::int64_t last = t.size(-1);
    return last % alignment == 0 ? t : pad_last(s, t, round_up(last, alignment) - last);
  };
  AttentionArguments padded = given;
  padded.query = pad(given.query);
  padded.key = pad(given.key);
  padded.value = pad(given.value);
  Tensor debug_mask;  // lives as long as the tuple that the kernel returned
  Tensor output = flash_attention(s, padded, debug_mask);
  return output.size(-1) == size ? output : slice(s, std::move(output), -1, 0, size);
}

bool is_aligned(const Tensor& mask, std::int64_t alignment) {
  for (int i = 0; i < mask.dim() - 1; ++i)
    if (mask.strides()[i] % alignment != 0) return false;
  return mask.strides().back() == 1;
}

/// preprocess_mask: rows that begin at multiples of 8 elements, then expanded to all heads.
Tensor mask_for_efficient(Session& s, Tensor mask, const AttentionArguments& arguments) {
  constexpr std::int64_t alignment = 8;
  if (!is_aligned(mask, alignment)) {
    const std::int64_t last = mask.size(-1);
    mask = slice(s, pad_last(s, mask, alignment - last % alignment), -1, 0, last);
  }
  return expand(s, mask,
                {arguments.query.size(0), arguments.query.size(1), arguments.query.size(2),
                 arguments.key.size(2)});
}

void cast_arguments(Session& s, AttentionArguments& arguments) {
  // C++ evaluates the casts from the last argument to the first.
  arguments.mask = to_lower_precision(s, arguments.mask);
  arguments.value = to_lower_precision(s, arguments.value);
  arguments.key = to_lower_precision(s, arguments.key);
  arguments.query = to_lower_precision(s, arguments.query);
}

Tensor run_kernel(Session& s, AttentionKernel kernel, AttentionArguments& arguments) {
  switch (kernel) {
    case AttentionKernel::cudnn:
      return cudnn_attention(s, arguments);
    case AttentionKernel::flash:
      return s.settings.device == Device::cpu ? flash_attention_for_cpu(s, arguments)
                                              : padded_flash_attention(s, arguments);
    case AttentionKernel::efficient:
      if (arguments.mask) arguments.mask = mask_for_efficient(s, arguments.mask, arguments);
      return efficient_attention(s, arguments);
    case AttentionKernel::math:
      break;
  }
  return math_attention(s, arguments);
}

}  // namespace

Tensor additive_mask(Session& s, const Tensor& mask, Dtype dtype) {
  if (!mask || mask.dtype() != Dtype::boolean) return mask;
  // torch.where(mask, 0.0, scalar_tensor(-inf)) wraps its number when the tensor is there.
  const Tensor masked = scalar_tensor(s, like(mask, dtype));
  const Tensor kept = scalar_tensor(s, like(mask, dtype));
  return where(s, mask, kept, masked);
}

Tensor scaled_dot_product_attention(Session& s, AttentionArguments given) {
  AttentionArguments arguments = given;
  cast_arguments(s, arguments);
  const AttentionKernel kernel = choose_attention_kernel(s, arguments);
  // What runs inside is not cast again; casts and given tensors live until the kernel is through.
  const Scoped no_autocast(s.autocast.enabled, false);
  AttentionArguments inner = arguments;
  inner.mask = additive_mask(s, arguments.mask, arguments.query.dtype());
  return run_kernel(s, kernel, inner);
}

}  // namespace shardscope::eager
