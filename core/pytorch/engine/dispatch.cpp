#include "core/pytorch/engine/dispatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/pytorch/engine/fake_strides.h"
#include "core/pytorch/engine/selective.h"
#include "core/pytorch/engine/stride_order.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// Operands of one operator for the observers; numbers and None are no tensors to them.
class Operands {
 public:
  void add(const Tensor& tensor) {
    if (!tensor.defined() || tensor->wrapped_number) return;
    if (count_ < few_.size())
      few_[count_] = tensor.impl();
    else
      more_.push_back(tensor.impl());
    ++count_;
  }
  std::span<const TensorImpl* const> span() {
    if (count_ <= few_.size()) return {few_.data(), count_};
    if (more_.size() < count_) more_.insert(more_.begin(), few_.begin(), few_.end());
    return more_;
  }

 private:
  std::array<const TensorImpl*, 8> few_{};
  std::vector<const TensorImpl*> more_;
  std::size_t count_ = 0;
};

/// Keeps what a selective checkpoint asks to keep: detached, which is an operator too. Views are
/// ignored as the real one ignores detach, which takes no memory either.
void keep(Session& s, const Operator& op, std::span<const Tensor* const> outputs) {
  SelectiveCache* cache = std::exchange(s.selective_forward, nullptr);
  std::optional<Tensors> kept;
  if (cache->keeps(op)) {
    kept.emplace();
    for (const Tensor* output : outputs) kept->push_back(detach(s, *output));
  }
  cache->note(op, std::move(kept));
  s.selective_forward = cache;
}

/// Lets fresh outputs be what was kept of this call, as if the operator had not run; whether it
/// was kept.
bool replay(Session& s, const Operator& op, std::span<const Tensor* const> outputs) {
  std::optional<Tensors> kept = s.selective_replay->take(op);
  if (!kept) {
    for (const Tensor* output : outputs) output->storage()->tell_allocated();
    return false;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    outputs[i]->impl()->storage = (*kept)[i].storage();
  return true;
}

bool is_detach(const Operator& op) { return op.name == "aten.detach.default"; }

void tell(Session& s, const Operator& op, Operands& inputs, Operands& outputs, CallFacts facts) {
  const OperatorCall call{.op = op,
                          .inputs = inputs.span(),
                          .outputs = outputs.span(),
                          .flops = facts.flops,
                          .causal = facts.causal,
                          .pairs = facts.pairs,
                          .stretches = facts.stretches};
  s.tell([&](Observer& o) { o.on_operator(s, call); });
}

/// Elements from the first to past the last that a tensor reaches.
std::int64_t reach(const Dims& sizes, const Dims& strides) {
  std::int64_t last = 0;
  for (int i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return last + 1;
}

}  // namespace

void dispatched(Session& s, const Operator& op, std::span<const Tensor* const> inputs,
                std::span<const Tensor* const> outputs, CallFacts facts) {
  if (s.selective_replay && !is_detach(op) && replay(s, op, outputs)) return;
  if (s.observed()) {
    Operands in, out;
    for (const Tensor* tensor : inputs) in.add(*tensor);
    for (const Tensor* tensor : outputs) out.add(*tensor);
    tell(s, op, in, out, facts);
  }
  if (s.selective_forward && !is_detach(op)) keep(s, op, outputs);
}

void dispatched(Session& s, const Operator& op, TensorPointers inputs, TensorPointers outputs,
                CallFacts facts) {
  dispatched(s, op, std::span(inputs.begin(), inputs.size()),
             std::span(outputs.begin(), outputs.size()), facts);
}

void dispatched(Session& s, const Operator& op, const Tensors& inputs, const Tensors& outputs,
                CallFacts facts) {
  const auto pointers = [](const Tensors& tensors) {
    std::vector<const Tensor*> all;
    for (const Tensor& tensor : tensors) all.push_back(&tensor);
    return all;
  };
  dispatched(s, op, std::span<const Tensor* const>(pointers(inputs)),
             std::span<const Tensor* const>(pointers(outputs)), facts);
}

Tensor allocate_strided(Session& s, Like like, const Dims& sizes, const Dims& strides) {
  Storage storage = StorageImpl::allocate(s, {.bytes = bytes_of(reach(sizes, strides), like.dtype),
                                              .device = like.device,
                                              .stream = s.stream});
  return Tensor(Ref<TensorImpl>(new TensorImpl(
      std::move(storage), {.dtype = like.dtype, .sizes = sizes, .strides = strides, .offset = 0})));
}

Tensor allocate(Session& s, Like like, const Dims& sizes) {
  return allocate_strided(s, like, sizes, contiguous_strides(sizes));
}

Tensor allocate_like(Session& s, const Tensor& tensor, Dtype dtype) {
  const Dims strides =
      s.settings.fake_tensors ? fake_like_strides(tensor) : preserved_strides(tensor);
  return allocate_strided(s, like(tensor, dtype), tensor.sizes(), strides);
}

Tensor alias_of(const Tensor& base, const Dims& sizes, const Dims& strides, std::int64_t offset) {
  Tensor alias(Ref<TensorImpl>(new TensorImpl(
      base.storage(),
      {.dtype = base.dtype(), .sizes = sizes, .strides = strides, .offset = offset})));
  if (base->float8()) alias->with_extras().float8 = base->float8();
  return alias;
}

bool is_dense(const Dims& sizes, const Dims& strides) {
  std::int64_t expected = 1;
  for (int left = sizes.size(); left > 0; --left) {
    int next = 0;  // each time another, as `expected` only grows
    while (next < sizes.size() && (sizes[next] < 2 || strides[next] != expected)) ++next;
    if (next == sizes.size()) break;
    expected *= sizes[next];
  }
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes) elements *= std::max<std::int64_t>(size, 1);
  return expected == elements;
}

namespace {

/// at::infer_dense_strides: dense, in the order of the given strides.
Dims dense_strides(const Dims& sizes, const Dims& strides) {
  const auto should_swap = [&](int a, int b) {
    if (strides[a] == 0 || strides[b] == 0) return 0;
    if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
    return sizes[a] > sizes[b] ? 1 : 0;
  };
  return strides_in(sorted_dims(sizes.size(), should_swap), sizes);
}

}  // namespace

Dims preserved_strides(const Tensor& tensor) {
  if (tensor.numel() == 0 || is_dense(tensor.sizes(), tensor.strides())) return tensor.strides();
  return dense_strides(tensor.sizes(), tensor.strides());
}

Dims broadcast(const Dims& a, const Dims& b) {
  const int n = std::max(a.size(), b.size());
  Dims sizes = Dims::filled(n, 1);
  for (int i = 1; i <= n; ++i) {
    const std::int64_t of_a = i <= a.size() ? a[-i] : 1;
    const std::int64_t of_b = i <= b.size() ? b[-i] : 1;
    if (of_a != of_b && of_a != 1 && of_b != 1)
      throw Error({.where = "operator",
                   .what = fmt::format("shapes ({}) and ({}) do not go together",
                                       fmt::join(a, ", "), fmt::join(b, ", ")),
                   .way_out = {}});
    sizes[-i] = of_a == 1 ? of_b : of_a;
  }
  return sizes;
}

int wrap_dim(int dim, int dims) { return dim < 0 ? dim + std::max(dims, 1) : dim; }

}  // namespace shardscope::eager
