// The family fsdp1 of the kind `collectives`: FullyShardedDataParallel.
#include "tests/recordings/collectives_fsdp1.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/pytorch/runtimes/fsdp1/clip.h"
#include "core/pytorch/runtimes/fsdp1/optimizer_state.h"
#include "core/pytorch/runtimes/fsdp1/state_dict.h"
#include "core/pytorch/runtimes/fsdp1/summon.h"
#include "tests/recordings/collectives.h"
#include "tests/recordings/collectives_checkpoint.h"
#include "tests/recordings/collectives_loop.h"
#include "tests/recordings/collectives_models.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using namespace eager;

/// One case, played.
class Fsdp1Run {
 public:
  Fsdp1Run(const Json& given, int rank)
      : given_(given),
        groups_(given.at("world").get<int>(), rank),
        s_({.device = Device::cpu, .watched = true}),
        log_(groups_),
        fsdp1_log_(log_),
        model_(collectives_model(s_, given.at("model"))),
        units_(fsdp1_units(given, model_.blocks)) {
    s_.observe(log_);
    for (const NamedParameter& named : named_parameters_of(*model_.root))
      if (named.tensor().requires_grad()) trainable_ += named.tensor().numel();
  }

  Json play() {
    log_.phase("construct");
    wrap();
    const Json units = described(*sharded_);
    TrainingHooks hooks{
        .forward = [this](const Arguments& batch) { return call(s_, sharded_->module(), batch); }};
    hooks.micro_batch = [this](bool last) { return without_sync(last); };
    hooks.clip = [this] {
      fsdp1::clip_grad_norm(s_, *sharded_, norm_order());
      return false;
    };
    for (const Tensor& parameter : sharded_->parameters())
      if (parameter.requires_grad()) hooks.parameters.push_back(parameter);
    optimizer_ = std::make_unique<ParameterOptimizer>(hooks.parameters, optimizer_settings());
    hooks.step = [this] { optimizer_->step(s_); };
    hooks.action = [this](const Json& action) { act(action); };
    run_training(s_, log_, given_, sharded_->module(), hooks);
    return {{"groups", log_.groups()},
            {"trainable_params", trainable_},
            {"units", units},
            {"events", log_.events()}};
  }

 private:
  void wrap() {
    const bool marks = given_.value("mark_backward", true);
    std::vector<std::string> tracked = model_.tracked;
    for (const std::string& unit : units_)
      if (std::find(tracked.begin(), tracked.end(), unit) == tracked.end()) tracked.push_back(unit);
    std::vector<eager::Module*> modules;
    for (const std::string& name : tracked) modules.push_back(&module_named(*model_.root, name));
    for (std::size_t i = 0; i < tracked.size(); ++i)
      mark_forward(log_, *modules[i], tracked[i], marks);
    mark_forward(log_, *model_.root, "root", marks);
    const ModuleTree tree = module_tree_of(*model_.root);
    sharded_ = std::make_unique<fsdp1::FullySharded>(
        s_, fsdp1::FullySharded::Input{.module = model_.root,
                                       .plan = fsdp1_plan(given_, tree, units_, groups_.rank()),
                                       .options = fsdp1_options(given_),
                                       .groups = fsdp1_groups(given_, groups_),
                                       .watchers = {&fsdp1_log_}});
    wrap_checkpoints(given_, sharded_->module(), model_.blocks, [](const eager::Module& module) {
      return module.class_name == fsdp1::wrapper_class;
    });
    for (const auto& unit : sharded_->units())
      mark_backward(log_, *unit->wrapper, unit->plan.module.empty() ? "root" : unit->plan.module,
                    marks);
    for (std::size_t i = 0; i < tracked.size(); ++i)
      if (std::find(units_.begin(), units_.end(), tracked[i]) == units_.end())
        mark_backward(log_, *modules[i], tracked[i], marks);
  }

  OptimizerSettings optimizer_settings() const {
    const bool sgd = given_.value("optimizer", "adamw") == "sgd";
    return {.rule = sgd ? OptimizerRule::sgd : OptimizerRule::adamw,
            .implementation = OptimizerImplementation::loop,
            .weight_decay = !sgd};
  }

  /// extra() of the recorder.
  void act(const Json& action) {
    const std::string name = action.is_string() ? action : action.at("do");
    if (name == "summon_full_params") {
      summon(action);
    } else if (name == "optim_state_dict") {
      log_.enter("optim_state_dict");
      const bool full = action.at("type") == "full";
      fsdp1::optimizer_state_dict(s_, *sharded_, *optimizer_,
                                  {.sharded = !full,
                                   .rank0_only = full && action.value("rank0_only", false),
                                   .offload_to_cpu = full ? action.value("offload", false) : true});
      log_.leave();
    } else if (name == "state_dict" || name == "load_state_dict") {
      const fsdp1::StateDictOptions options = state_dict_options(action);
      const fsdp1::StateDict state = fsdp1::state_dict(s_, *sharded_, options);
      if (name == "state_dict") return;
      log_.phase("load_state_dict");
      fsdp1::load_state_dict(s_, *sharded_, state, options.type);
    }
  }

  void summon(const Json& action) {
    fsdp1::SummonOptions options;
    if (action.is_object())
      options = {.recurse = action.value("recurse", true),
                 .writeback = action.value("writeback", true),
                 .rank0_only = action.value("rank0_only", false),
                 .offload_to_cpu = action.value("offload_to_cpu", false),
                 .with_gradients = action.value("with_grads", false)};
    fsdp1::SummonedParameters summoned(s_, *sharded_, options);
    log_.add("inside_summon");
    summoned.leave(s_);
  }

  static fsdp1::StateDictOptions state_dict_options(const Json& action) {
    const std::string type = action.at("type");
    if (type == "local") return {.type = fsdp1::StateDictType::local};
    if (type == "sharded") return {.type = fsdp1::StateDictType::sharded};
    return {.rank0_only = action.value("rank0_only", false),
            .offload_to_cpu = action.value("offload", false)};
  }

  double norm_order() const {
    const Json order = given_.value("norm_type", Json(2));
    return order == "inf" ? std::numeric_limits<double>::infinity() : order.get<double>();
  }

  std::shared_ptr<void> without_sync(bool last) {
    const Json accumulate = given_.value("accumulate", Json::object());
    if (last || !accumulate.value("no_sync", false)) return {};
    sharded_->begin_no_sync(s_);
    return {nullptr, [this](void*) { sharded_->end_no_sync(); }};
  }

  const Json& given_;
  ProcessGroups groups_;
  Session s_;
  EventLog log_;
  Fsdp1Log fsdp1_log_;
  RecordedModule model_;
  std::vector<std::string> units_;
  std::unique_ptr<fsdp1::FullySharded> sharded_;
  std::unique_ptr<ParameterOptimizer> optimizer_;
  std::int64_t trainable_ = 0;
};

Json play(const Json& given, int rank) { return Fsdp1Run(given, rank).play(); }

}  // namespace

CollectivesFamily fsdp1_collectives() { return {.name = "fsdp1", .play = play}; }

}  // namespace shardscope::recordings
