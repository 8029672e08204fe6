// The family deepspeed of the kind `collectives`: DeepSpeedEngine with ZeRO stages 1, 2 and 3.
#include <array>
#include <nlohmann/json.hpp>

#include "core/pytorch/runtimes/deepspeed/engine.h"
#include "tests/recordings/collectives.h"
#include "tests/recordings/collectives_log.h"
#include "tests/recordings/collectives_models.h"
#include "tests/recordings/deepspeed_case.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using namespace eager;
namespace ds = eager::deepspeed;
using eager::Module;  // not the model's

std::string shown(const std::string& name) { return name.empty() ? "root" : name; }

const char* name_of(ds::Site site) {
  switch (site) {
    case ds::Site::gradient_hook:
      return "grad_hook";
    case ds::Site::reduce_ipg_grads:
      return "reduce_ipg_grads";
    case ds::Site::average_tensor:
      return "average_tensor";
    case ds::Site::reduce_gradients:
      return "reduce_gradients";
    case ds::Site::gradient_epilogue:
      return "independent_gradient_partition_epilogue";
    case ds::Site::step:
      return "step";
    case ds::Site::check_overflow:
      return "check_overflow";
    case ds::Site::has_overflow:
      return "has_overflow";
    case ds::Site::scaled_global_norm:
      return "scaled_global_norm";
    case ds::Site::grad_norm:
      return "get_grad_norm_direct";
    case ds::Site::fetch:
      return "fetch";
    case ds::Site::all_gather_params:
      return "all_gather_params";
    case ds::Site::release:
      return "release";
    case ds::Site::reduce_and_partition:
      return "reduce_and_partition";
    case ds::Site::avg_scatter_grads:
      return "avg_scatter_grads";
    case ds::Site::post_step:
      return "_post_step";
  }
  return "";
}

const char* name_of(ds::GatherStatus status) {
  constexpr std::array names{"available", "not_available", "inflight"};
  return names[static_cast<std::size_t>(status)];
}

const char* name_of(ds::TraceMode trace) {
  constexpr std::array names{"record", "complete", "invalid"};
  return names[static_cast<std::size_t>(trace)];
}

/// The recorder's patches in run_deepspeed.
class DeepSpeedLog : public ds::Watcher {
 public:
  DeepSpeedLog(EventLog& log, Module& root) : log_(log) {
    for (const NamedParameter& p : named_parameters_of(root))
      parameters_.push_back({p.name, p.tensor().numel()});
  }

  void on_enter(Session&, const ds::Visit& visit) override {
    if (visit.module)
      log_.enter(name_of(visit.site), shown(visit.module->name));
    else
      log_.enter(name_of(visit.site));
  }
  void on_leave(Session&, const ds::Visit&) override { log_.leave(); }

  void on_gradient(Session&, std::size_t parameter) override {
    log_.add("grad_ready",
             {{"param", parameters_[parameter].first}, {"numel", parameters_[parameter].second}});
  }

  void on_fetch(Session&, const ds::Fetch& fetch) override {
    if (fetch.parameters.empty()) return;
    Json rows = Json::array();
    for (std::size_t i = 0; i < fetch.parameters.size(); ++i) {
      const auto& [name, elements] = parameters_[fetch.parameters[i]];
      rows.push_back(Json::array({name, elements, name_of(fetch.status[i])}));
    }
    log_.add("fetch", {{"mod", shown(fetch.module.name)},
                       {"forward", fetch.forward},
                       {"trace", name_of(fetch.trace)},
                       {"params", rows}});
  }

  void on_gather(Session&, const ds::ParameterIndices& indices) override {
    Json rows = Json::array();
    for (const std::size_t i : indices)
      rows.push_back(Json::array({parameters_[i].first, parameters_[i].second}));
    log_.add("all_gather_params", {{"params", rows}});
  }

  void on_gather_wait(Session&, const ds::ParameterIndices& indices) override {
    // The recorder finds no names in the handle of a single parameter.
    log_.add("wait_all_gather",
             {{"params", indices.size() == 1 ? Json::array({"?"}) : names(indices)}});
  }

  void on_released(Session&, const Module& module, const ds::ParameterIndices& freed,
                   const ds::ParameterIndices& kept) override {
    log_.add("release",
             {{"mod", shown(module.name)}, {"freed", names(freed)}, {"kept", names(kept)}});
  }

 private:
  Json names(const ds::ParameterIndices& indices) const {
    Json rows = Json::array();
    for (const std::size_t i : indices) rows.push_back(parameters_[i].first);
    return rows;
  }

  EventLog& log_;
  std::vector<std::pair<std::string, std::int64_t>> parameters_;
};

/// One case, played.
class DeepSpeedRun {
 public:
  DeepSpeedRun(const Json& given, int rank)
      : given_(given),
        settings_(recorded_deepspeed_settings(given.at("deepspeed"),
                                              given.at("world").get<std::int64_t>())),
        groups_(given.at("world").get<int>(), rank),
        s_({.device = Device::cpu, .watched = true}),
        log_(groups_),
        model_(collectives_model(s_, given.at("model"))),
        deepspeed_log_(log_, *model_.root) {
    s_.observe(log_);
  }

  Json play() {
    Json order = Json::array();
    for (const NamedParameter& p : named_parameters_of(*model_.root))
      order.push_back(Json::array({p.name, p.tensor().sizes().span()}));
    log_.phase("construct");
    mark();
    ds::Engine engine(
        s_, groups_, {.model = *model_.root, .settings = settings_, .watchers = {&deepspeed_log_}});
    const bool partitioned = settings_.stage == 3;
    log_.add("engine", {{"optimizer",
                         partitioned ? "DeepSpeedZeroOptimizer_Stage3" : "DeepSpeedZeroOptimizer"},
                        {"zero_stage", settings_.stage}});
    for (int iteration = 1; iteration <= given_.value("iters", 3); ++iteration)
      for (int micro = 0; micro < settings_.accumulation_steps; ++micro)
        run_micro_batch(engine, iteration, micro);
    return {{"groups", log_.groups()}, {"param_order", order}, {"events", log_.events()}};
  }

 private:
  void mark() {
    const bool marks = given_.value("mark_backward", true);
    Module& root = *model_.root;
    for (const std::string& name : model_.tracked) {
      mark_forward(log_, module_named(root, name), name, marks);
      mark_backward(log_, module_named(root, name), name, marks);
    }
    mark_forward(log_, root, "root", marks);
    mark_backward(log_, root, "root", marks);
  }

  void run_micro_batch(ds::Engine& engine, int iteration, int micro) {
    Arguments batch = collectives_batch(s_, given_.at("model"));
    log_.phase("forward", iteration, micro);
    const Tensors outputs = engine.forward(std::move(batch));
    log_.phase("backward", iteration, micro);
    engine.backward(outputs.front());
    log_.phase("engine_step", iteration, micro);
    engine.step();
  }

  const Json& given_;
  DeepSpeedSettings settings_;
  ProcessGroups groups_;
  Session s_;
  EventLog log_;
  RecordedModule model_;
  DeepSpeedLog deepspeed_log_;
};

Json play(const Json& given, int rank) { return DeepSpeedRun(given, rank).play(); }

}  // namespace

CollectivesFamily deepspeed_collectives() { return {.name = "deepspeed", .play = play}; }

}  // namespace shardscope::recordings
