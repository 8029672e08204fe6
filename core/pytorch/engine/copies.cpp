#include "core/pytorch/engine/copies.h"

#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/iterator.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/view_backward.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

NodeRef clone_node(Session& s, const Tensor& self) {
  return make_node(s, "CloneBackward0", {&self},
                   [](Session&, Node&, Tensors& gradients) -> Tensors { return {gradients[0]}; });
}

Tensor clone_with(Session& s, const Tensor& self, const Dims& strides) {
  static constexpr Operator op{"aten.clone.default", OperatorKind::copy};
  const NodeRef node = clone_node(s, self);
  Tensor result = allocate_strided(s, like(self), self.sizes(), strides);
  dispatched(s, op, {&self}, {&result});
  set_history(s, result, node);
  return result;
}

}  // namespace

Tensor clone(Session& s, Tensor self) {
  const LetGo let_go{self};
  return clone_with(s, self, preserved_strides(self));
}

Tensor clone_contiguous(Session& s, Tensor self) {
  const LetGo let_go{self};
  return clone_with(s, self, contiguous_strides(self.sizes()));
}

Tensor contiguous(Session& s, Tensor self) {
  const LetGo let_go{self};
  if (self.is_contiguous()) return self;
  return clone_with(s, self, contiguous_strides(self.sizes()));
}

namespace {

/// memcpy_and_sync: the host waits for a copy between it and the device that is not non_blocking.
/// Source: ATen/native/cuda/Copy.cu, copy_kernel_cuda.
void wait_for_copy(Session& s, Device to, Device from, bool non_blocking) {
  const bool crosses = to != from && (to == Device::cuda || from == Device::cuda);
  const bool has_values = to != Device::meta && from != Device::meta;
  if (crosses && has_values && !non_blocking) s.host_sync();
}

}  // namespace

Tensor to(Session& s, Tensor self, ToOptions options) {
  static constexpr Operator op{"aten._to_copy.default", OperatorKind::copy};
  const LetGo let_go{self};
  const Dtype dtype = options.dtype.value_or(self.dtype());
  const Device device = options.device.value_or(self.device());
  if (dtype == self.dtype() && device == self.device() && !options.copy) return self;
  NodeRef node;
  if (is_floating(dtype))
    node = make_node(s, "ToCopyBackward0", {&self},
                     [back = like(self)](Session& in, Node&, Tensors& gradients) -> Tensors {
                       if (!gradients[0]) return {Tensor()};
                       return {to(in, gradients[0], {.dtype = back.dtype, .device = back.device})};
                     });
  Tensor result = allocate_strided(s, {dtype, device}, self.sizes(), preserved_strides(self));
  dispatched(s, op, {&self}, {&result});
  wait_for_copy(s, device, self.device(), options.non_blocking);
  set_history(s, result, node);
  return result;
}

Tensor to(Session& s, Tensor self, Dtype dtype) {
  return to(s, std::move(self), ToOptions{.dtype = dtype});
}

Tensor type_as(Session& s, Tensor self, const Tensor& other) {
  const Dtype dtype = other.dtype();
  return to(s, std::move(self), dtype);
}

Tensor copy_(Session& s, Tensor self, Tensor source, bool non_blocking) {
  static constexpr Operator op{"aten.copy_.default", OperatorKind::copy};
  const LetGo let_go{self, source};
  if (any_requires_grad(
          s, std::array{static_cast<const Tensor*>(&self), static_cast<const Tensor*>(&source)}))
    refuse_gradient("copy_");
  ++self->version;
  dispatched(s, op, {&self, &source}, {&self});
  wait_for_copy(s, self.device(), source.device(), non_blocking);
  return self;
}

void copy_into_slice(Session& s, const Tensor& self, int dim, std::int64_t start,
                     const Tensor& part) {
  static constexpr Operator op{"aten.copy_.default", OperatorKind::copy};
  const std::int64_t end = start + part.size(dim);
  const Tensor place = indexed_slice(s, self, dim, start, end);
  const auto formula = [dim, start, end, sizes = self.sizes(), strides = self.strides()](
                           Session& in, Node& me, Tensors& gradients) -> Tensors {
    Tensor whole = new_empty_strided(in, gradients[0], sizes, strides, like(gradients[0]));
    copy_(in, whole, gradients[0]);
    const Tensor of_place = slice(in, whole, dim, start, end);
    Tensor of_part = clone_contiguous(in, of_place);
    if (!me.needs(0)) return {Tensor(), std::move(of_part)};
    copy_(in, of_place, zeros_like(in, of_part));
    return {std::move(whole), std::move(of_part)};
  };
  const NodeRef node = make_node(s, "CopySlices", {&self, &part}, formula);
  ++self->version;
  dispatched(s, op, {&place, &part}, {&place});
  set_history(s, self, node);
}

namespace {

/// at::native::cat: the common dtype, contiguous (channels-last is not modelled).
Tensor joined(Session& s, const Operator& op, const Tensors& tensors, const Dims& sizes) {
  Dtype dtype = tensors[0].dtype();
  for (const Tensor& tensor : tensors) dtype = promote(dtype, tensor.dtype());
  Tensor result = allocate(s, like(tensors[0], dtype), sizes);
  dispatched(s, op, tensors, {result});
  return result;
}

std::vector<const Tensor*> pointers(const Tensors& tensors) {
  std::vector<const Tensor*> all;
  for (const Tensor& tensor : tensors) all.push_back(&tensor);
  return all;
}

struct Part {
  std::int64_t length;
  Dtype dtype;
  bool skipped;
};

/// The old rule: tensors of shape (0,) are skipped in torch.cat.
bool is_skipped(const Tensor& tensor) { return tensor.dim() == 1 && tensor.size(0) == 0; }

}  // namespace

Tensor cat(Session& s, Tensors tensors, int dim) {
  static constexpr Operator op{"aten.cat.default", OperatorKind::copy};
  Tensors held = std::move(tensors);
  to_widest_on_cpu(s, held);
  std::vector<Part> parts;
  Dims sizes = held[0].sizes();
  for (const Tensor& tensor : held)
    if (!is_skipped(tensor)) sizes = tensor.sizes();
  dim = wrap_dim(dim, sizes.size());
  sizes[dim] = 0;
  for (const Tensor& tensor : held) {
    const std::int64_t length = is_skipped(tensor) ? 0 : tensor.size(dim);
    parts.push_back({length, tensor.dtype(), is_skipped(tensor)});
    sizes[dim] += length;
  }
  const NodeRef node = make_node(
      s, "CatBackward0", pointers(held),
      [parts, dim](Session& in, Node&, Tensors& gradients) -> Tensors {
        Tensors results(parts.size());
        std::int64_t at = 0;
        for (std::size_t i = 0; i < parts.size(); at += parts[i].length, ++i)
          results[i] = parts[i].skipped ? zeros(in, {0}, like(gradients[0], parts[i].dtype))
                                        : to(in, narrow(in, gradients[0], dim, at, parts[i].length),
                                             parts[i].dtype);
        return results;
      });
  Tensor result = joined(s, op, held, sizes);
  set_history(s, result, node);
  return result;
}

Tensor cat(Session& s, std::vector<Stretch> list) {
  static constexpr Operator op{"aten.cat.default", OperatorKind::copy};
  std::vector<const Tensor*> inputs;
  std::vector<InputStretch> stretches;
  std::int64_t elements = 0;
  for (const auto& [tensors, times] : list) {
    stretches.push_back({static_cast<std::uint32_t>(tensors.size()), times});
    for (const Tensor& tensor : tensors) {
      inputs.push_back(&tensor);
      elements += tensor.numel() * times;
    }
  }
  if (any_requires_grad(s, inputs)) refuse_gradient("cat of parts that recur");
  Tensor result = allocate(s, like(*inputs.front()), {elements});
  const Tensor* const output = &result;
  CallFacts facts;
  facts.stretches = stretches;
  dispatched(s, op, inputs, std::span(&output, 1), facts);
  for (Stretch& stretch : list) s.repeat(stretch.times, [&] { stretch.tensors.clear(); });
  return result;
}

Tensor stack(Session& s, Tensors tensors, int dim) {
  static constexpr Operator op{"aten.stack.default", OperatorKind::copy};
  const Tensors held = std::move(tensors);
  dim = wrap_dim(dim, held[0].dim() + 1);
  const NodeRef node =
      make_node(s, "StackBackward0", pointers(held),
                [dim](Session& in, Node& me, Tensors& gradients) -> Tensors {
                  Tensors results(me.next_edges().size());
                  for (std::size_t i = 0; i < results.size(); ++i)
                    if (me.needs(i))
                      results[i] = select(in, gradients[0], dim, static_cast<std::int64_t>(i));
                  return results;
                });
  Dims sizes = held[0].sizes();
  sizes.insert(dim, static_cast<std::int64_t>(held.size()));
  Tensor result = joined(s, op, held, sizes);
  set_history(s, result, node);
  return result;
}

namespace {

/// repeat_backward of torch/csrc/autograd/FunctionsManual.cpp.
Tensor repeat_backward(Session& s, Tensor gradient, const Dims& repeats, const Dims& sizes) {
  const int extra = repeats.size() - sizes.size();
  for (int i = 0; i < extra; ++i) gradient = sum(s, std::move(gradient), Dims{0}, false);
  Dims split_sizes;
  Dims sum_dims;
  for (int i = 0; i < sizes.size(); ++i) {
    if (repeats[i + extra] != 1) {
      sum_dims.push_back(split_sizes.size());
      split_sizes.push_back(repeats[i + extra]);
    }
    split_sizes.push_back(sizes[i]);
  }
  if (sum_dims.empty()) return gradient;
  gradient = reshape(s, std::move(gradient), split_sizes);
  return sum(s, std::move(gradient), sum_dims, false);
}

}  // namespace

Tensor repeat(Session& s, Tensor self, Dims repeats) {
  static constexpr Operator op{"aten.repeat.default", OperatorKind::copy};
  const LetGo let_go{self};
  const NodeRef node =
      make_node(s, "RepeatBackward0", {&self},
                [repeats, back = self.sizes()](Session& in, Node&, Tensors& gradients) -> Tensors {
                  return {repeat_backward(in, gradients[0], repeats, back)};
                });
  Dims sizes = repeats;
  for (int i = 1; i <= self.dim(); ++i) sizes[-i] *= self.size(-i);
  Tensor result = allocate(s, like(self), sizes);
  dispatched(s, op, {&self}, {&result});
  set_history(s, result, node);
  return result;
}

}  // namespace shardscope::eager
