#include "core/pytorch/parallel/mixture_modules.h"

#include <utility>

#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/norm.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/parallel/sequence_shards.h"

namespace shardscope::eager::parallel {
namespace {

Tensor on_meta(Session& s, Dtype dtype, const Dims& sizes, bool trainable) {
  const Tensor tensor = allocate(s, {.dtype = dtype, .device = Device::meta}, sizes);
  tensor.set_requires_grad(trainable);
  return tensor;
}

/// FeedForward.
Tensors feed_forward(Session& s, Module& me, const Arguments& arguments) {
  Tensor hidden = silu(s, call_one(s, me.child("w1"), {arguments[0]}));
  {
    const Tensor other = call_one(s, me.child("w3"), {arguments[0]});
    hidden = mul(s, std::move(hidden), other);
  }
  return {call_one(s, me.child("w2"), {hidden})};
}

}  // namespace

Module& add_module(Module& parent, const std::string& own, std::string class_name) {
  auto module = std::make_shared<Module>();
  module->name = parent.name.empty() ? own : parent.name + "." + own;
  module->class_name = std::move(class_name);
  parent.children.push_back({own, module});
  return *module;
}

void add_parameter(Session& s, Module& module, const char* name, Dtype dtype, const Dims& sizes) {
  module.parameters.push_back({name, on_meta(s, dtype, sizes, true)});
}

void add_buffer(Session& s, Module& module, const char* name, const Dims& sizes) {
  module.buffers.push_back({name, on_meta(s, Dtype::float32, sizes, false), false});
}

void add_norm(Session& s, Module& parent, const std::string& own, Dtype dtype, std::int64_t size) {
  Module& norm = add_module(parent, own, "RMSNorm");
  add_parameter(s, norm, "weight", dtype, {size});
  norm.forward = [](Session& in, Module& me, const Arguments& arguments) -> Tensors {
    return {rms_norm(in, arguments[0], me.parameter("weight"))};
  };
}

Module& add_exact_linear(Session& s, Module& parent, const std::string& own, Dtype dtype,
                         const Dims& sizes) {
  Module& module = add_module(parent, own, "Linear");
  add_parameter(s, module, "weight", dtype, sizes);
  module.forward = [](Session& in, Module& me, const Arguments& arguments) -> Tensors {
    return {linear(in, arguments[0], me.parameter("weight"))};
  };
  return module;
}

Module& add_linear(Session& s, Module& parent, const std::string& own, const MixtureOptions& o,
                   const Dims& sizes) {
  Module& module = add_exact_linear(s, parent, own, o.dtype, sizes);
  constexpr std::int64_t divisor = 16;
  const bool divides = sizes[0] % divisor == 0 && sizes[1] % divisor == 0;
  // Each rank seeks the largest values of its own part: parameters are plain tensors.
  static const Float8Split whole;
  if (divides && o.float8 != Float8Recipe::none)
    convert_to_float8(module, float8_settings(o.float8, false), nullptr, whole);
  return module;
}

Module& add_biased_linear(Session& s, Module& parent, const std::string& own,
                          const MixtureOptions& o, const Dims& sizes) {
  Module& module = add_exact_linear(s, parent, own, o.dtype, sizes);
  add_parameter(s, module, "bias", o.dtype, {sizes[0]});
  module.forward = [](Session& in, Module& me, const Arguments& arguments) -> Tensors {
    return {linear(in, arguments[0], me.parameter("weight"), me.parameter("bias"))};
  };
  return module;
}

Module& add_row_linear(Session& s, Module& parent, const std::string& own, const MixtureOptions& o,
                       const Dims& sizes) {
  Module& module = add_linear(s, parent, own, o, {sizes[0], sizes[1] / tensor_ranks(o)});
  module.forward = with_scattered_sum(o.tensor, std::move(module.forward));
  return module;
}

Module& add_feed_forward(Session& s, Module& parent, const std::string& own,
                         const MixtureOptions& o, std::int64_t hidden) {
  const std::int64_t width = o.shape.dim;
  Module& module = add_module(parent, own, "FeedForward");
  add_linear(s, module, "w1", o, {hidden, width});
  add_linear(s, module, "w2", o, {width, hidden});
  add_linear(s, module, "w3", o, {hidden, width});
  module.forward = feed_forward;
  return module;
}

Tensor table_rows(Session& s, const Tensor& table, const Tensor& positions) {
  const std::int64_t batch = positions.size(0), length = positions.size(1), width = table.size(1);
  if (batch == 1)
    return view(s, index(s, table, {squeeze(s, positions, 0)}), {1, length, 1, width});
  const Tensor expanded = expand(s, unsqueeze(s, unsqueeze(s, table, 0), 2), {batch, -1, -1, -1});
  const Tensor rows =
      expand(s, view(s, positions, {batch, length, 1, 1}), {batch, length, 1, width});
  return gather(s, expanded, 1, rows);
}

void check_positions(Session& s, const Tensor& positions, std::int64_t rows) {
  static constexpr Operator op{"aten._assert_async.msg", OperatorKind::other};
  const Tensor good = all(s, compare(s, Comparison::le, positions, rows - 1));
  dispatched(s, op, {&good}, {});
}

}  // namespace shardscope::eager::parallel
