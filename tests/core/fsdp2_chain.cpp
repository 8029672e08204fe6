#include "tests/core/fsdp2_chain.h"

#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/reductions.h"

namespace shardscope::eager {
namespace {

std::shared_ptr<Module> linear_module(Session& s, const std::string& name, std::int64_t in,
                                      std::int64_t out) {
  auto module = std::make_shared<Module>();
  module->name = name;
  module->class_name = "Linear";
  const Tensor weight = empty(s, {out, in}, {.dtype = Dtype::float32, .device = Device::cuda});
  weight.set_requires_grad(true);
  module->parameters.push_back({.name = "weight", .tensor = weight});
  module->forward = [](Session& session, Module& self, const Arguments& arguments) -> Tensors {
    return {linear(session, arguments[0], self.parameter("weight"))};
  };
  return module;
}

}  // namespace

std::shared_ptr<Module> chain(Session& s, const std::vector<std::int64_t>& sizes) {
  auto root = std::make_shared<Module>();
  root->class_name = "Chain";
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const std::string name = std::to_string(i);
    root->children.push_back({name, linear_module(s, name, sizes[i], sizes[i + 1])});
  }
  root->forward = [](Session& session, Module& self, const Arguments& arguments) -> Tensors {
    Tensor x = arguments[0];
    for (const Module::Child& child : self.children) x = call_one(session, *child.module, {x});
    return {x};
  };
  return root;
}

Tensor input(Session& s, std::int64_t width) {
  return empty(s, {2, width}, {.dtype = Dtype::float32, .device = Device::cuda});
}

void Collectives::on_collective(Session&, const CollectiveCall& call) {
  rows.push_back(std::string(shardscope::name_of(call.kind)) + " " +
                 std::to_string(call.elements_in) + " " + std::to_string(call.elements_out) + " " +
                 std::string(shardscope::name_of(call.dtype)));
}

void Fsdp2::shard_all(fsdp2::Options options) {
  if (!options.mesh) options.mesh = sharded.mesh({groups.world().size()});
  for (const Module::Child& child : root->children)
    sharded.fully_shard({child.module.get()}, options);
  sharded.fully_shard({root.get()}, options);
}

Tensor Fsdp2::forward(std::int64_t width) {
  return call_one(session, *root, {input(session, width)});
}

void Fsdp2::step(std::int64_t width) { backward(session, sum(session, forward(width))); }

}  // namespace shardscope::eager
