#include "tests/recordings/flat_parameters_traffic.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/pytorch/engine/engine.h"
#include "core/pytorch/runtimes/fsdp2/fully_shard.h"
#include "tests/recordings/eager_models.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using namespace eager;
using eager::Module;  // not the model's
namespace f2 = eager::fsdp2;

/// Notes each collective with the group whose gathering or reduction it is of.
class Traffic : public f2::Watcher, public Observer {
 public:
  explicit Traffic(const ProcessGroups& groups) : groups_(groups) {}
  void number(const f2::ParameterGroup& group, std::size_t index) { numbers_[&group] = index; }
  void clear() { rows_ = Json::array(); }
  const Json& rows() const { return rows_; }

  void on_enter(Session&, const f2::Visit& visit) override {
    if (visit.group) running_.push_back(visit.group);
  }
  void on_leave(Session&, const f2::Visit& visit) override {
    if (visit.group) running_.pop_back();
  }
  void on_collective(Session&, const CollectiveCall& call) override {
    rows_.push_back(Json::array({name_of(call.kind), numbers_.at(running_.back()), call.elements_in,
                                 call.elements_out, name_of(call.dtype),
                                 groups_.all()[call.group.value].ranks.size()}));
  }

 private:
  const ProcessGroups& groups_;
  std::map<const f2::ParameterGroup*, std::size_t> numbers_;
  std::vector<const f2::ParameterGroup*> running_;
  Json rows_ = Json::array();
};

f2::ReshardAfterForward reshard_of(const Fsdp2Group& group) {
  if (!group.post_forward_shards) return false;
  if (*group.post_forward_shards == group.mesh.shards) return true;
  return *group.post_forward_shards;
}

std::vector<int> shape_of(const Fsdp2Mesh& mesh) {
  if (mesh.replicas > 1) return {mesh.replicas, mesh.shards};
  return {mesh.shards};
}

/// fully_shard with the groups of a plan, inner modules first.
class PlannedModel {
 public:
  PlannedModel(f2::FullySharded& sharded, Module& root, const ModuleTree& tree)
      : sharded_(sharded), tree_(tree) {
    for (Module* module : modules_of(root)) {
      modules_[module->name] = module;
      // Under every name: a plan calls a tied parameter as its group does.
      for (const Module::NamedTensor& own : module->parameters)
        parameters_[module->name.empty() ? own.name : module->name + "." + own.name] = own.tensor;
    }
  }

  const f2::ParameterGroup* shard(const Fsdp2Group& group) {
    std::vector<Module*> modules;
    for (const std::int32_t id : group.modules)
      modules.push_back(modules_.at(tree_.modules[static_cast<std::size_t>(id)].name));
    std::map<const TensorImpl*, int> dims;
    for (const Fsdp2Parameter& p : group.parameters)
      dims[parameters_.at(tree_.parameters[static_cast<std::size_t>(p.parameter)].name).impl()] =
          p.shard_dim;
    const Fsdp2MixedPrecision& precision = group.precision;
    return sharded_
        .fully_shard(modules,
                     {.mesh = mesh_of(group.mesh),
                      .reshard_after_forward = reshard_of(group),
                      .mixed_precision = {.param_dtype = precision.parameters,
                                          .reduce_dtype = precision.reduction,
                                          .output_dtype = precision.output,
                                          .cast_forward_inputs = precision.cast_forward_inputs},
                      .shard_dim = [&](const Tensor& t) { return dims.at(t.impl()); },
                      .ignored = [&](const Tensor& t) { return !dims.contains(t.impl()); }})
        .group();
  }

 private:
  f2::MeshInfoRef mesh_of(const Fsdp2Mesh& mesh) {
    f2::MeshInfoRef& known = meshes_[{mesh.replicas, mesh.shards}];
    if (!known) known = sharded_.mesh(shape_of(mesh));
    return known;
  }

  f2::FullySharded& sharded_;
  const ModuleTree& tree_;
  std::map<std::string, Module*> modules_;
  std::map<std::string, Tensor> parameters_;
  std::map<std::pair<int, int>, f2::MeshInfoRef> meshes_;
};

}  // namespace

Json fsdp2_traffic(const Json& spec, const ModuleTree& tree, const Fsdp2Plan& plan, int world,
                   int rank) {
  Session s({.device = Device::cpu});
  ProcessGroups groups(world, rank);
  const std::shared_ptr<Module> root = eager_module(s, spec, tree);
  Traffic traffic(groups);
  f2::FullySharded sharded(s, groups);
  sharded.watch(traffic);
  s.observe(traffic);
  {
    PlannedModel planned(sharded, *root, tree);
    for (std::size_t i = plan.groups.size(); i-- > 0;)
      traffic.number(*planned.shard(plan.groups[i]), i);
    // The model itself comes last, even where its units have taken all of its parameters.
    if (!sharded.state_of(*root))
      sharded.fully_shard({root.get()}, {.mesh = sharded.mesh({world}),
                                         .ignored = [](const Tensor&) { return true; }});
  }
  for (int iteration = 0; iteration < 2; ++iteration) {
    traffic.clear();
    const Tensor loss = eager_loss(s, spec, call(s, *root, eager_input(s, spec)));
    backward(s, loss);
  }
  return traffic.rows();
}

}  // namespace shardscope::recordings
