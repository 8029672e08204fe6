// torchao's float8 training: linear layers whose three products are of 8-bit factors, scaled by
// the largest value of a tensor or of each row. Source: torchao 0.18, torchao/float8.
#pragma once

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/common/functional.h"

namespace shardscope::eager::parallel {

enum class Float8Recipe : std::uint8_t { none, tensorwise, rowwise };

/// As --float8 takes it; "" of none.
constexpr std::string_view name_of(Float8Recipe recipe) {
  constexpr std::string_view names[] = {"", "tensorwise", "rowwise"};
  return names[static_cast<std::size_t>(recipe)];
}

struct Float8Settings {
  Float8Recipe recipe = Float8Recipe::none;
  /// enable_fsdp_float8_all_gather, of tensorwise: shards are cast before they are gathered.
  bool fsdp_all_gather = false;
  /// Inner dimensions of products are filled up to a multiple of 16; where they are one, copied.
  bool pad_inner_dim = false;
  /// precompute_float8_dynamic_scale_for_fsdp after each optimizer step.
  bool precompute_scale = false;
};

/// The recipe with what Float8LinearConfig.from_recipe_name leaves open: FSDP2 (`sharded`) gathers
/// what is cast tensorwise.
constexpr Float8Settings float8_settings(Float8Recipe recipe, bool sharded) {
  const bool gathers = sharded && recipe == Float8Recipe::tensorwise;
  return {.recipe = recipe, .fsdp_all_gather = gathers, .precompute_scale = gathers};
}

/// How a layer lies on the ranks of tensor parallelism: its output features split over them, its
/// input features, or neither.
enum class Float8Style : std::uint8_t { whole, columns, rows };

/// The ranks of a layer under tensor parallelism. Where an operand is split the largest value of
/// its ranks is sought: DTensor reduces one number in float64 before clamp(), for each cast.
struct Float8Split {
  Float8Style style = Float8Style::whole;
  MeshAxisContext axis;
};

/// A tensor in 8 bits with what it was multiplied by. The engine's dtype of the data is uint8: one
/// byte an element.
struct Float8Tensor {
  Tensor data;
  Tensor scale;
  bool by_rows = false;  ///< a scale for each row (or column), not one for all
};

/// WeightWithDynamicFloat8CastTensor: a shard that is cast before the gather. Its scale is the same
/// on all ranks: a reduction of one number, unless it was computed before.
class Float8Shard {
 public:
  Float8Shard(const MeshAxisContext& axis) : axis_(axis) {}  // NOLINT
  /// fsdp_pre_all_gather.
  Tensor cast(Session& s, const Tensor& shard);
  /// fsdp_post_all_gather: the scale is that of what is there now.
  void copied_out() { scale_ = next_scale_; }
  /// Of what was gathered last.
  const Tensor& scale() const { return scale_; }
  void set_precomputed_scale(const Tensor& scale) { precomputed_ = scale; }

 private:
  MeshAxisContext axis_;
  Tensor precomputed_;
  Tensor next_scale_, scale_;
};

/// convert_to_float8_training of one linear layer: its forward. `shard`, if any, is its weight's.
/// Both are asked at each forward, and must outlive the layer.
void convert_to_float8(Module& linear, const Float8Settings& settings, const Float8Shard* shard,
                       const Float8Split& split);

/// hp_tensor_to_float8_dynamic of what a layer gets, before it is gathered: float8_e4m3fn. Its
/// gradient stays as it comes. `splits`: the ranks that have a part of it each; none: all have all.
Tensor cast_input(Session& s, const Tensor& input, const MeshAxisContext* splits);
/// NoopFwToFloat8BwDynamic: the gradient is cast before it is gathered: float8_e5m2.
Tensor cast_gradient(Session& s, const Tensor& output, const MeshAxisContext* splits);

/// precompute_float8_dynamic_scale_for_fsdp: one reduction for all weights over each axis.
void precompute_scales(Session& s, const std::vector<MeshAxisContext>& axes, const Tensors& shards,
                       const std::vector<Float8Shard*>& targets);

}  // namespace shardscope::eager::parallel
