// A tensor without values: what PyTorch's host code knows of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "core/pytorch/engine/dims.h"
#include "core/pytorch/engine/reference.h"
#include "core/pytorch/engine/storage.h"

namespace shardscope::eager {

class Node;
class Tensor;
class TensorImpl;

/// torch.Tensor.register_hook: may replace the gradient by returning another.
using TensorHook = std::function<Tensor(Session&, const Tensor& gradient)>;
/// torch.Tensor.register_post_accumulate_grad_hook: given the leaf.
using PostAccumulateHook = std::function<void(Session&, const Tensor& leaf)>;

/// A counted handle: a copy is one more reference, as a Python name is. No handle: None.
class Tensor {
 public:
  Tensor() = default;
  inline explicit Tensor(Ref<TensorImpl> impl);
  inline Tensor(const Tensor&);
  inline Tensor(Tensor&&) noexcept;
  inline Tensor& operator=(const Tensor&);
  inline Tensor& operator=(Tensor&&) noexcept;
  inline ~Tensor();

  bool defined() const { return static_cast<bool>(impl_); }
  explicit operator bool() const { return defined(); }
  bool is(const Tensor& other) const { return impl_ == other.impl_; }
  void reset() { impl_.reset(); }
  TensorImpl* impl() const { return impl_.get(); }
  TensorImpl* operator->() const { return impl_.get(); }

  inline Dtype dtype() const;
  inline Device device() const;
  inline const Dims& sizes() const;
  inline const Dims& strides() const;
  inline std::int64_t size(int dim) const;  ///< negative: from the end
  inline int dim() const;
  std::int64_t numel() const;
  Bytes bytes() const;  ///< elements times element size
  inline bool requires_grad() const;
  inline bool is_leaf() const;
  bool is_contiguous() const;
  bool is_floating_point() const;
  /// What autograd takes it for: of data in float8 the dtype that was cast.
  Dtype shown_dtype() const;
  inline const Storage& storage() const;
  inline const Ref<Node>& grad_fn() const;
  inline const Tensor& grad() const;
  /// Python's `t.grad = g`.
  void set_grad(Tensor gradient) const;
  /// requires_grad_(), of a leaf.
  void set_requires_grad(bool on) const;
  /// Python's `t.grad_dtype = dtype`, of a leaf: what arriving gradients are cast to; none: they
  /// stay as they are. Unset: the leaf's own dtype.
  void set_grad_dtype(std::optional<Dtype> dtype) const;
  /// Python's `t.data = other`: this tensor's sizes, dtype and storage become other's.
  void set_data(const Tensor& other) const;

 private:
  Ref<TensorImpl> impl_;
};

/// torchao's Float8TrainingTensor: what there is beside its data, whose dtype here is uint8.
struct Float8Facts {
  Tensor scale;
  Dtype original = Dtype::bfloat16;  ///< before the cast
  std::string_view format;           ///< "float8_e4m3fn"
};

/// What a tensor has that has hooks, is a leaf in a graph, or holds numbers in float8.
struct AutogradExtras {
  std::vector<std::pair<std::uint64_t, TensorHook>> hooks;  ///< of a leaf
  std::vector<std::pair<std::uint64_t, PostAccumulateHook>> post_accumulate_hooks;
  Node* grad_accumulator = nullptr;  ///< not counted; cleared when that node goes
  bool has_grad_dtype = false;
  std::optional<Dtype> grad_dtype;
  std::shared_ptr<const Float8Facts> float8;
};

/// As c10::TensorImpl with its AutogradMeta.
class TensorImpl : public Counted {
 public:
  struct Layout {
    Dtype dtype = Dtype::float32;
    Dims sizes;
    Dims strides;
    std::int64_t offset = 0;  ///< in elements
  };
  TensorImpl(Storage storage, Layout layout);

  Storage storage;
  Layout layout;
  bool requires_grad_flag = false;  ///< of a leaf
  bool wrapped_number = false;      ///< a Python number: takes no part in type promotion
  bool is_view = false;
  bool is_complex = false;          ///< the last dimension has the two parts of complex numbers
  std::uint32_t output_number = 0;  ///< of grad_fn
  std::uint32_t version = 0;        ///< counts in-place writes
  Ref<Node> grad_fn;
  Tensor grad;
  std::unique_ptr<AutogradExtras> extras;

  bool requires_grad() const { return requires_grad_flag || grad_fn; }
  bool is_leaf() const { return !grad_fn; }
  AutogradExtras& with_extras();
  /// Null: it is no tensor in float8.
  const std::shared_ptr<const Float8Facts>& float8() const;

 private:
  friend class Ref<TensorImpl>;
  ~TensorImpl();
  void release_last();
};

Tensor::Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}
Tensor::Tensor(const Tensor&) = default;
Tensor::Tensor(Tensor&&) noexcept = default;
Tensor& Tensor::operator=(const Tensor&) = default;
Tensor& Tensor::operator=(Tensor&&) noexcept = default;
Tensor::~Tensor() = default;

Dtype Tensor::dtype() const { return impl_->layout.dtype; }
Device Tensor::device() const { return impl_->storage->device(); }
const Dims& Tensor::sizes() const { return impl_->layout.sizes; }
const Dims& Tensor::strides() const { return impl_->layout.strides; }
std::int64_t Tensor::size(int dim) const { return sizes()[dim]; }
int Tensor::dim() const { return sizes().size(); }
bool Tensor::requires_grad() const { return impl_->requires_grad(); }
bool Tensor::is_leaf() const { return impl_->is_leaf(); }
const Storage& Tensor::storage() const { return impl_->storage; }
const Ref<Node>& Tensor::grad_fn() const { return impl_->grad_fn; }
const Tensor& Tensor::grad() const { return impl_->grad; }

/// A position among a tensor's or a node's hooks, to remove one again.
struct HookHandle {
  std::uint64_t id = 0;
};

/// torch.Tensor.register_hook.
HookHandle register_hook(Session& s, const Tensor& tensor, TensorHook hook);
HookHandle register_post_accumulate_grad_hook(Session& s, const Tensor& leaf,
                                              PostAccumulateHook hook);
void remove_hook(const Tensor& tensor, HookHandle handle);

/// Let go of an operator's arguments when it returns, as Python does with temporaries, not at the
/// end of the caller's full expression as C++ would: `const LetGo let_go{self, other};` first in
/// each operator that takes its tensors by value. So nested calls live as in Python.
class LetGo {
 public:
  template <class... T>
  explicit LetGo(T&... arguments) : LetGo(std::array<Tensor*, sizeof...(T)>{&arguments...}) {}
  LetGo(const LetGo&) = delete;
  LetGo& operator=(const LetGo&) = delete;
  ~LetGo() {
    for (int i = 0; i < count_; ++i) tensors_[static_cast<std::size_t>(i)]->reset();
  }

 private:
  template <std::size_t n>
  explicit LetGo(const std::array<Tensor*, n>& tensors) : count_(static_cast<int>(n)) {
    static_assert(n <= 8);
    std::copy(tensors.begin(), tensors.end(), tensors_.begin());
  }

  std::array<Tensor*, 8> tensors_{};
  int count_;
};

}  // namespace shardscope::eager
