#include "tests/core/fsdp1_chain.h"

#include <algorithm>

#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/reductions.h"

namespace shardscope::eager {
namespace {

using fsdp1::Site;
using fsdp1::Visit;

std::string short_name(const fsdp1::Unit& unit) {
  return unit.plan.module.empty() ? "R" : "L" + unit.plan.module.substr(7);
}

std::shared_ptr<Module> linear_block(Session& s, const std::string& name, std::int64_t width) {
  auto module = std::make_shared<Module>();
  module->name = name;
  module->class_name = "Block";
  for (const auto& [own, sizes] : {std::pair<const char*, Dims>{"weight", {width, width}},
                                   std::pair<const char*, Dims>{"bias", {width}}}) {
    const Tensor parameter = empty(s, sizes, {Dtype::float32, s.settings.device});
    parameter.set_requires_grad(true);
    module->parameters.push_back({.name = own, .tensor = parameter});
  }
  module->forward = [](Session& in, Module& self, const Arguments& arguments) -> Tensors {
    return {linear(in, arguments[0], self.parameter("weight"), self.parameter("bias"))};
  };
  return module;
}

Fsdp1Settings plan_settings(const Chain::Settings& settings) {
  Fsdp1Settings wanted;
  wanted.world = settings.world;
  wanted.strategy = settings.strategy;
  wanted.use_original_parameters = settings.options.use_original_parameters;
  if (settings.options.precision.parameters)
    wanted.mixed_precision =
        MixedPrecision{settings.options.precision.parameters, settings.options.precision.reduction};
  if (settings.strategy == ShardingStrategy::hybrid_shard)
    wanted.mesh = Mesh{.replicate = 2, .shard = settings.world / 2};
  CustomWrap wrap;
  for (int i = 1; i <= settings.blocks; ++i)
    wrap.units.push_back(
        {.module = "layers." + std::to_string(i), .strategy = {}, .use_original_parameters = {}});
  wanted.auto_wrap = wrap;
  return wanted;
}

}  // namespace

void Sequence::on_enter(Session&, const Visit& visit) {
  if (visit.unit) units_.push_back(visit.unit);
  if (visit.site == Site::reshard && visit.frees) rows.push_back("free:" + short_name(*visit.unit));
  sites_.push_back(visit.unit != nullptr);
}

void Sequence::on_leave(Session&, const Visit&) {
  if (sites_.back()) units_.pop_back();
  sites_.pop_back();
}

void Sequence::on_limiter_enqueue(Session&, EventId event, std::size_t) {
  freed_[event] = short_name(*units_.back());
}

void Sequence::on_collective(Session&, const CollectiveCall& call) {
  if (call.kind == OperationKind::all_gather) gathered_dtypes.push_back(call.dtype);
  if (call.kind != OperationKind::all_gather) reduced_elements.push_back(call.elements_out);
  const char* kind = call.kind == OperationKind::all_gather       ? "AG:"
                     : call.kind == OperationKind::reduce_scatter ? "RS:"
                                                                  : "AR:";
  rows.push_back(kind + (units_.empty() ? std::string("-") : short_name(*units_.back())));
}

Sequence::Names Sequence::of(const std::string& prefix) const {
  Names found;
  for (const std::string& row : rows)
    if (row.starts_with(prefix)) found.push_back(row);
  return found;
}

Sequence::Names Sequence::collectives() const {
  Names found;
  for (const std::string& row : rows)
    if (row[2] == ':') found.push_back(row);
  return found;
}

Chain::Chain(const Settings& settings) : groups(settings.world, 0), width_(settings.width) {
  s.observe(sequence);
  s.observe(storages);
  auto root = std::make_shared<Module>();
  root->class_name = "Chain";
  auto layers = std::make_shared<Module>();
  layers->name = "layers";
  for (int i = 1; i <= settings.blocks; ++i)
    layers->children.push_back(
        {std::to_string(i), linear_block(s, "layers." + std::to_string(i), width_)});
  root->children = {{"layers", layers}, {"head", linear_block(s, "head", width_)}};
  root->forward = [](Session& in, Module& self, const Arguments& arguments) -> Tensors {
    Tensor x = arguments[0];
    for (const auto& layer : self.child("layers").children) x = call_one(in, *layer.module, {x});
    return {sum(in, call_one(in, self.child("head"), {x}))};
  };
  model = std::make_unique<fsdp1::FullySharded>(
      s,
      fsdp1::FullySharded::Input{.module = root,
                                 .plan = plan_fsdp1(tree(settings.blocks), plan_settings(settings)),
                                 .options = settings.options,
                                 .groups = groups_of(settings),
                                 .watchers = {&sequence}});
  if (settings.around)
    for (auto& layer : layers->children) layer.module = settings.around(layer.module);
}

Tensor Chain::forward() {
  const Tensor input = empty(s, {2, width_}, {Dtype::float32, s.settings.device});
  input.set_requires_grad(true);
  return call_one(s, model->module(), {input});
}

void Chain::iteration() {
  backward(s, forward());
  for (const Tensor& parameter : model->parameters()) parameter.set_grad({});
}

ModuleTree Chain::tree(int blocks) const {
  ModuleTree tree;
  const auto add = [&](const std::string& name, std::int32_t parent, bool has_parameters) {
    const auto place = static_cast<std::int32_t>(tree.modules.size());
    tree.modules.push_back({.name = name,
                            .class_name = "",
                            .bases = {},
                            .parameters = {},
                            .children = {},
                            .parent = parent,
                            .same_as = {}});
    if (parent >= 0) tree.modules[static_cast<std::size_t>(parent)].children.push_back(place);
    if (!has_parameters) return place;
    for (const Shape& shape : {Shape{width_, width_}, Shape{width_}}) {
      tree.modules.back().parameters.push_back(static_cast<std::int32_t>(tree.parameters.size()));
      tree.parameters.push_back({.name = name + (shape.size() == 2 ? ".weight" : ".bias"),
                                 .shape = shape,
                                 .dtype = Dtype::float32,
                                 .trainable = true,
                                 .same_as = {}});
    }
    return place;
  };
  const auto root = add("", -1, false);
  const auto layers = add("layers", root, false);
  for (int i = 1; i <= blocks; ++i) add("layers." + std::to_string(i), layers, true);
  add("head", root, true);
  return tree;
}

fsdp1::Groups Chain::groups_of(const Settings& settings) {
  if (settings.strategy != ShardingStrategy::hybrid_shard)
    return {.world = &groups.world(), .all = &groups.world()};
  const auto mesh = groups.mesh({2, settings.world / 2});
  return {.world = &groups.world(), .all = mesh[0], .shard = mesh[1], .replicas = mesh[0]};
}

}  // namespace shardscope::eager
