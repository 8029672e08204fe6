// Operators that copy, convert and make tensors.
#pragma once

#include <cstdint>
#include <optional>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// aten.clone, preserve_format.
Tensor clone(Session& s, Tensor self);
Tensor clone_contiguous(Session& s, Tensor self);
/// Tensor.contiguous(): itself, or a contiguous aten.clone.
Tensor contiguous(Session& s, Tensor self);
struct ToOptions {
  std::optional<Dtype> dtype = {};
  std::optional<Device> device = {};
  bool copy = false;
  bool non_blocking = false;
};
/// Tensor.to(): itself where nothing changes, else aten._to_copy.
Tensor to(Session& s, Tensor self, ToOptions options);
Tensor to(Session& s, Tensor self, Dtype dtype);
/// Tensor.type_as().
Tensor type_as(Session& s, Tensor self, const Tensor& other);
/// Tensor.copy_().
Tensor copy_(Session& s, Tensor self, Tensor source, bool non_blocking = false);
/// self[..., start : start + n, ...] = part in one dimension, by copy_; `self` is no view. Source:
/// PyTorch torch/csrc/autograd/functions/tensor.cpp (CopyBackwards, CopySlices).
void copy_into_slice(Session& s, const Tensor& self, int dim, std::int64_t start,
                     const Tensor& part);
Tensor cat(Session& s, Tensors tensors, int dim = 0);
/// A part of a list: `tensors` one after the other, `times` times over (Session::repeat).
struct Stretch {
  Tensors tensors;
  std::uint32_t times = 1;
};
/// torch.cat of such a list of tensors with one dimension and dtype, without a gradient. Then the
/// list lets go of them, one after the other.
Tensor cat(Session& s, std::vector<Stretch> list);
Tensor stack(Session& s, Tensors tensors, int dim = 0);
Tensor repeat(Session& s, Tensor self, Dims repeats);

Tensor empty(Session& s, const Dims& sizes, Like like);
Tensor empty_strided(Session& s, const Dims& sizes, const Dims& strides, Like like);
Tensor empty_like(Session& s, const Tensor& tensor, std::optional<Dtype> dtype = {});
Tensor zeros(Session& s, const Dims& sizes, Like like);
Tensor zeros_like(Session& s, const Tensor& tensor);
Tensor ones(Session& s, const Dims& sizes, Like like);
Tensor ones_like(Session& s, const Tensor& tensor);
Tensor full(Session& s, const Dims& sizes, Like like);
Tensor full_like(Session& s, const Tensor& tensor);
Tensor scalar_tensor(Session& s, Like like);
/// torch.tensor(...) of Python numbers: aten.lift_fresh.
Tensor tensor(Session& s, const Dims& sizes, Like like);
/// Which of its arguments torch.arange was given.
enum class ArangeForm : std::uint8_t { end, start, start_step };
/// torch.arange(...) with `count` elements.
Tensor arange(Session& s, std::int64_t count, Like like, ArangeForm form = ArangeForm::end);
Tensor new_empty(Session& s, const Tensor& tensor, const Dims& sizes);
Tensor new_empty_strided(Session& s, const Tensor& tensor, const Dims& sizes, const Dims& strides,
                         Like like);
Tensor new_zeros(Session& s, const Tensor& tensor, const Dims& sizes);
Tensor new_ones(Session& s, const Tensor& tensor, const Dims& sizes,
                std::optional<Dtype> dtype = {});
Tensor zero_(Session& s, Tensor self);
Tensor fill_(Session& s, Tensor self);
Tensor uniform_(Session& s, Tensor self);
/// Tensor.item(): aten._local_scalar_dense, which waits for the device.
void item(Session& s, const Tensor& tensor);

}  // namespace shardscope::eager
