#include "core/pytorch/runtimes/fsdp2/parameter.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"

namespace shardscope::eager::fsdp2 {
namespace {

/// nn.Parameter(data): a leaf of its own over the same storage.
Tensor parameter_of(const Tensor& data, bool requires_grad) {
  const Tensor leaf(Ref<TensorImpl>(new TensorImpl(data.storage(), data->layout)));
  leaf.set_requires_grad(requires_grad);
  return leaf;
}

/// Tensor.pin_memory().
Tensor pinned(Session& s, const Tensor& tensor) {
  const Storage storage = StorageImpl::allocate(
      s, {.bytes = tensor.bytes(), .device = Device::cpu, .stream = s.stream, .pinned = true});
  return Tensor(Ref<TensorImpl>(new TensorImpl(storage, tensor->layout)));
}

/// The part of a dimension that belongs to rank `index` of torch.chunk's parts.
std::int64_t chunk_size(std::int64_t size, std::int64_t part, int index) {
  return std::clamp<std::int64_t>(size - part * index, 0, part);
}

}  // namespace

Parameter::Parameter(Session& s, const Tensor& original, ParameterPlaces places,
                     const Settings& settings)
    : places_(std::move(places)),
      mesh_(settings.mesh),
      post_forward_mesh_(settings.post_forward_mesh),
      policy_(settings.mixed_precision),
      offload_(settings.offload),
      shard_dim_(settings.shard_dim),
      gradient_rule_(settings.gradient_rule),
      gather_extension_(settings.gather_extension),
      size_(original.sizes()),
      original_dtype_(original.dtype()) {
  const auto& [module, slot] = places_.places.front();
  name_ = (module->name.empty() ? "" : module->name + ".") + module->parameters[slot].name;
  init_sharded_param(s, original);
}

const std::string& Parameter::name() const { return name_; }

void Parameter::init_sharded_param(Session& s, const Tensor& original) {
  const NoGrad no_grad(s);
  const int ranks = mesh_->shard->size();
  const std::int64_t rows = size_[shard_dim_];
  const std::int64_t part = (rows + ranks - 1) / ranks;
  const Tensors chunks = chunk(s, original, ranks, shard_dim_);
  const std::int64_t own_rows = chunk_size(rows, part, mesh_->shard->rank);
  sharded_size_ = size_;
  sharded_size_[shard_dim_] = own_rows;
  padded_sharded_size_ = chunks.front().sizes();

  Tensor padded = new_zeros(s, original, padded_sharded_size_);
  if (sharded_size_.product() > 0)
    copy_(s, narrow(s, padded, shard_dim_, 0, own_rows),
          chunks[static_cast<std::size_t>(mesh_->shard->rank)]);
  if (offload_ && padded.device() != Device::meta) {
    padded = to(s, std::move(padded), {.device = Device::cpu});
    if (offload_->pin_memory) padded = pinned(s, padded);
  }
  sharded_data_ = view(s, padded, {-1});
  const Tensor shard = narrow(s, padded, shard_dim_, 0, sharded_size_.product() > 0 ? own_rows : 0);
  sharded_param_ = parameter_of(detach(s, shard), original.requires_grad());
  register_on_modules(sharded_param_);
}

Tensor Parameter::full_tensor(Session& s) const {
  if (offloads())
    throw Error({.where = name_,
                 .what = "is read as a whole from shards in host memory, and computed with there",
                 .way_out = "leave CPU offload out, or choose a loss by the model"});
  const ProcessGroup& group = *mesh_->shard;
  const std::int64_t rows = size_[shard_dim_], own_rows = sharded_size_[shard_dim_];
  const std::int64_t first = padded_sharded_size_[shard_dim_] * group.rank;
  // Shard._to_replicate_tensor: padded, gathered along dimension 0, then cut.
  const auto gather = [&](Session& in, const NodeRef&) -> Tensors {
    Tensor local = sharded_param_;
    const bool uneven = padded_sharded_size_[shard_dim_] * group.size() != rows;
    if (uneven && own_rows < padded_sharded_size_[shard_dim_]) {
      const Tensor padded = new_zeros(in, local, padded_sharded_size_);
      copy_(in, narrow(in, padded, shard_dim_, 0, own_rows), local);
      local = padded;
    }
    const Tensor whole = functional_all_gather(in, group, local);
    wait_tensor(in, whole);
    return {uneven ? narrow(in, whole, shard_dim_, 0, rows) : whole};
  };
  const auto cut = [=, dim = shard_dim_](Session& in, Node&, Tensors& gradients) -> Tensors {
    return {clone(in, narrow(in, gradients[0], dim, std::min(first, rows), own_rows))};
  };
  return apply_function(s, "RedistributeBackward", {sharded_param_}, gather, cut).front();
}

void Parameter::init_dtypes() {
  original_dtype_ = sharded_param_.dtype();
  const bool casts = policy_.param_dtype && *policy_.param_dtype != original_dtype_ &&
                     sharded_param_.is_floating_point();
  param_dtype_ = casts ? policy_.param_dtype : std::nullopt;
  reduce_dtype_ = policy_.reduce_dtype;
}

void Parameter::reset_sharded_param(Session& s) {
  const auto& [module, slot] = places_.places.front();
  sharded_param_ = module->parameters[slot].tensor;
  Tensor local = sharded_param_;
  if (local.device() == Device::meta) return;
  const bool same_storage =
      sharded_data_.storage() == local.storage() && local.storage()->bytes().count > 0;
  bool updated = false;
  const std::int64_t length = local.numel() > 0 ? local.size(shard_dim_) : 0;
  if (local.sizes() != padded_sharded_size_ && !same_storage) {
    Tensor padded = new_zeros(s, local, padded_sharded_size_);
    copy_(s, narrow(s, padded, shard_dim_, 0, length), local);
    local = padded;
    updated = true;
  }
  if (pins_memory() && !local.storage()->pinned()) {
    local = pinned(s, to(s, local, {.device = Device::cpu}));
    updated = true;
  }
  if (!same_storage) sharded_data_ = view(s, local, {-1});
  if (updated) sharded_param_.set_data(narrow(s, local, shard_dim_, 0, length));
}

const Tensor& Parameter::shard_to_gather() const {
  return state_ == ShardedState::sharded ? sharded_data_ : post_forward_data_;
}

Tensor Parameter::all_gather_input(Session& s) const {
  Tensor input = shard_to_gather();
  if (has_gather_extension()) return view(s, gather_extension_.before(s, sharded_param_), {-1});
  if (state_ == ShardedState::sharded && offload_)
    input = to(s, input, {.device = s.settings.device, .non_blocking = true});
  if (param_dtype_ && input.dtype() != *param_dtype_) input = to(s, input, *param_dtype_);
  return input;
}

void Parameter::init_gathered(Session& s, std::int64_t input_numel, Dtype dtype, int world) {
  if (gathered_.defined()) return;
  gathered_ = empty(s, {input_numel * world}, {.dtype = dtype, .device = s.settings.device});
  gathered_.storage()->tag.category = MemoryCategory::parameters;
}

void Parameter::alloc_gathered() {
  StorageImpl& storage = *gathered_.storage();
  if (storage.bytes() != gathered_.bytes()) storage.resize(gathered_.bytes());
}

void Parameter::init_unsharded_param(Session& s) {
  if (gather_extension_.after) gather_extension_.after();
  if (unsharded_param_.defined()) return;
  const Tensor whole = as_strided(s, gathered_, size_, contiguous_strides(size_), 0);
  unsharded_param_ = parameter_of(whole, sharded_param_.requires_grad());
  unsharded_param_.set_grad_dtype(unsharded_grad_dtype());
}

Tensor Parameter::unsharded_gradient(Session& s) const {
  const Tensor& gradient = unsharded_param_.grad();
  return gradient_rule_.redistribute ? gradient_rule_.redistribute(s, gradient) : gradient;
}

void Parameter::to_sharded() {
  register_on_modules(sharded_param_);
  if (!keep_unsharded_storage_) free_unsharded();
  state_ = ShardedState::sharded;
}

void Parameter::to_sharded_post_forward(Session& s) {
  const ProcessGroup& group = *post_forward_mesh_->shard;
  if (gathered_.numel() % group.size() != 0)
    throw Error({.where = name_,
                 .what = fmt::format("{} gathered elements do not divide over {} ranks",
                                     gathered_.numel(), group.size()),
                 .way_out = "give reshard_after_forward another number of ranks"});
  const std::int64_t kept = gathered_.numel() / group.size();
  post_forward_data_ = clone(s, narrow(s, gathered_, 0, kept * group.rank, kept));
  const std::int64_t part = (size_[0] + group.size() - 1) / group.size();
  Dims kept_size = size_;
  kept_size[0] = chunk_size(size_[0], part, group.rank);
  const Tensor shard =
      as_strided(s, post_forward_data_, kept_size, contiguous_strides(kept_size), 0);
  post_forward_param_ = parameter_of(detach(s, shard), sharded_param_.requires_grad());
  register_on_modules(post_forward_param_);
  if (!keep_unsharded_storage_) free_unsharded();
  state_ = ShardedState::sharded_post_forward;
}

void Parameter::to_unsharded() {
  if (sharded_param_.requires_grad() != unsharded_param_.requires_grad())
    unsharded_param_.set_requires_grad(sharded_param_.requires_grad());
  register_on_modules(unsharded_param_);
  if (state_ == ShardedState::sharded_post_forward) {
    post_forward_param_.reset();
    post_forward_data_.reset();
  }
  state_ = ShardedState::unsharded;
}

void Parameter::register_on_modules(const Tensor& tensor) {
  for (const auto& [module, slot] : places_.places) module->parameters[slot].tensor = tensor;
}

void Parameter::free_unsharded() {
  if (!gathered_.defined()) return;
  StorageImpl& storage = *gathered_.storage();
  if (storage.bytes().count != 0) storage.resize({});
}

}  // namespace shardscope::eager::fsdp2
