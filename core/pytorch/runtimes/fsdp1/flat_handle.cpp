#include "core/pytorch/runtimes/fsdp1/flat_handle.h"

#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/fsdp1/flat_storage.h"

namespace shardscope::eager::fsdp1 {

Unit::~Unit() = default;

FlatHandle::FlatHandle(Session& s, Unit& unit, Input input)
    : unit_(unit),
      places_(std::move(input.places)),
      aliases_(std::move(input.aliases)),
      module_(input.fully_sharded_module),
      device_(s.settings.device),
      original_dtype_(places_.front().tensor().dtype()),
      compute_dtype_(unit.plan.compute_dtype),
      reduce_dtype_(unit.plan.reduce_dtype) {
  for (const ParameterPlace& place : places_) {
    const Tensor& parameter = place.tensor();
    shapes_.push_back(parameter.sizes());
    strides_.push_back(parameter.strides());
    contiguous_.push_back(parameter.is_contiguous());
  }
  flatten(s);
  use_unsharded_views(s, false);
}

Tensor FlatHandle::padding(Session& s, std::int64_t elements) const {
  return mul(
      s,
      ones(s, {elements}, {.dtype = original_dtype_, .device = places_.front().tensor().device()}),
      Number(42));
}

void FlatHandle::flatten(Session& s) {
  struct Piece {
    Tensor tensor;
    bool is_padding;
  };
  std::vector<Piece> pieces;
  std::size_t fill = 0;
  const auto pad_before = [&](std::size_t parameter) {
    for (; fill < layout().fill.size() &&
           layout().fill[fill].before == static_cast<std::int32_t>(parameter);
         ++fill)
      pieces.push_back({padding(s, layout().fill[fill].elements), true});
  };
  for (std::size_t i = 0; i < places_.size(); ++i) {
    pad_before(i);
    pieces.push_back({places_[i].tensor(), false});
  }
  pad_before(places_.size());

  Tensors flat;
  for (const Piece& piece : pieces) {
    const Tensor data = piece.is_padding ? piece.tensor : detach(s, piece.tensor);
    flat.push_back(data.is_contiguous()
                       ? eager::flatten(s, data)
                       : as_strided(s, data, {data.numel()}, {1}, data->layout.offset));
  }
  const Tensor data = cat(s, flat);
  flat_ = detach(s, data);
  flat_.set_requires_grad(unit_.plan.trainable);

  if (!uses_original_parameters()) return;
  for (const ParameterPlace& place : places_) parameters_.push_back(place.tensor());
  for (const Alias& alias : aliases_) alias_parameters_.push_back(alias.place.tensor());
  views_.resize(places_.size());
  gradient_is_none_.resize(places_.size());
}

Tensor FlatHandle::unpadded_shard(Session& s, const Tensor& flat) const {
  const Tensors chunks = chunk(s, flat, unit_.group.size(), 0);
  const auto rank = static_cast<std::size_t>(unit_.group.rank);
  return rank < chunks.size() ? chunks[rank] : new_empty(s, chunks.front(), {0});
}

void FlatHandle::shard(Session& s) {
  const NoGrad no_grad(s);
  if (is_sharded_strategy()) {
    Tensor shard = clone(s, unpadded_shard(s, flat_));
    if (const std::int64_t missing = layout().shard_elements - shard.numel(); missing > 0)
      shard = pad_right(s, shard, missing);
    flat_.storage()->resize({});
    flat_.set_data(shard);
    // set_() leaves the accumulator of the constructor's views behind: the next one is made under
    // the stream of the first unshard, and the post-backward hook runs there (seen in recordings).
    flat_->with_extras().grad_accumulator = nullptr;
  }
  if (uses_original_parameters()) use_sharded_views(s);
}

void FlatHandle::init_attributes(Session& s) {
  const NoGrad no_grad(s);
  const bool offloads = unit_.shared.options.offload_parameters;
  local_shard_ = shallow_detach(s, flat_);
  if (offloads) {
    local_shard_ = pinned(s, local_shard_);
    cpu_gradient = pinned(s, zeros_like(s, local_shard_));
  }
  if (uses_parameter_precision()) {
    low_precision_shard_ = empty_like_on(s, local_shard_, {compute_dtype_, device_});
    free_storage(low_precision_shard_);
  }
  if (!is_sharded_strategy()) return;
  const std::int64_t padded = flat_.numel() * unit_.group.size();
  full_padded_ = empty(s, {padded}, {compute_dtype_, device_});
  full_padded_.storage()->tag.category = MemoryCategory::parameters;
  free_storage(full_padded_);
  if (!uses_parameter_precision()) return;
  full_precision_padded_ = empty(s, {padded}, {flat_.dtype(), device_});
  full_precision_padded_.storage()->tag.category = MemoryCategory::parameters;
  free_storage(full_precision_padded_);
}

void FlatHandle::cast(Session& s, Dtype dtype) {
  flat_.set_data(to(s, flat_, dtype));
  original_dtype_ = dtype;
}

bool FlatHandle::reshards_after_forward() const {
  return unit_.plan.strategy == ShardingStrategy::full_shard ||
         unit_.plan.strategy == ShardingStrategy::hybrid_shard;
}

bool FlatHandle::forces_full_precision() const {
  const bool has_low_precision = uses_parameter_precision() || reduce_dtype_ != original_dtype_;
  return has_low_precision && (progress.state == HandleState::summon ||
                               (!module_->training && unit_.shared.options.full_precision_in_eval));
}

std::optional<ParameterPart> FlatHandle::part(std::size_t i) const {
  return part_of(layout(), i, is_sharded_strategy() ? unit_.group.rank : 0);
}

bool FlatHandle::is_sharded(const Tensor& tensor) const {
  return is_sharded_strategy() && tensor.numel() == layout().shard_elements;
}

void FlatHandle::register_post_backward_hook(Session& s, NodePostHook hook) {
  // torch/distributed/fsdp/_runtime_utils.py: the node is found through a view's grad_fn.
  const Tensor view = expand(s, flat_, flat_.sizes());
  const NodeRef node = view.grad_fn()->next_edges().front().node;
  post_backward_hook_ = PostBackwardHook{
      .node = node, .handle = node->register_hook(s, std::move(hook)), .of_inputs = {}};
}

void FlatHandle::register_reshard_only_hook(Session& s, const Tensors& inputs, MultiGradHook hook) {
  post_backward_hook_ =
      PostBackwardHook{.node = {},
                       .handle = {},
                       .of_inputs = register_multi_grad_hook_all(s, inputs, std::move(hook))};
}

void FlatHandle::remove_post_backward_hook() {
  if (post_backward_hook_ && post_backward_hook_->node)
    post_backward_hook_->node->remove_hook(post_backward_hook_->handle);
  if (post_backward_hook_) post_backward_hook_->of_inputs.remove();
  post_backward_hook_.reset();
}

}  // namespace shardscope::eager::fsdp1
