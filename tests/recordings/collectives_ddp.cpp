// The families ddp and zero1 of the kind `collectives`: DistributedDataParallel, alone and under
// ZeroRedundancyOptimizer.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/ddp/distributed_data_parallel.h"
#include "core/pytorch/runtimes/ddp/zero_redundancy_optimizer.h"
#include "tests/recordings/collectives.h"
#include "tests/recordings/collectives_checkpoint.h"
#include "tests/recordings/collectives_log.h"
#include "tests/recordings/collectives_loop.h"
#include "tests/recordings/collectives_models.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using namespace eager;
using eager::Module;  // not the model's

/// The recorder's patch_ddp, and what it wraps of ZeroRedundancyOptimizer.
class DdpLog : public ddp::Watcher, public ddp::ZeroWatcher {
 public:
  explicit DdpLog(EventLog& log) : log_(log) {}

  void on_enter(Session&, ddp::Site site) override { log_.enter(names[static_cast<int>(site)]); }
  void on_leave(Session&, ddp::Site) override { log_.leave(); }
  void on_buckets_rebuilt(Session&) override { log_.add("buckets_rebuilt"); }
  void on_sync_begin(Session&) override { log_.enter("sync_params"); }
  void on_broadcast_begin(Session&, int rank) override {
    log_.enter("broadcast_params_from_rank", fmt::format("rank{}", rank));
  }
  void on_broadcast_end(Session&) override { log_.leave(); }
  void on_sync_end(Session&) override { log_.leave(); }

 private:
  static constexpr const char* names[] = {"verify_param_shapes", "sync_module_states",
                                          "sync_buffers", "rebuild_buckets"};
  EventLog& log_;
};

ddp::Options options_of(const Json& arguments) {
  ddp::Options options;
  if (arguments.contains("bucket_cap_mb") && !arguments.at("bucket_cap_mb").is_null())
    options.buckets.bucket_cap_mib = arguments.at("bucket_cap_mb").get<double>();
  options.buckets.bucket_caps_mib = arguments.value("bucket_cap_mb_list", std::vector<double>());
  options.buckets.find_unused_parameters = arguments.value("find_unused_parameters", false);
  options.buckets.static_graph = arguments.value("static_graph", false);
  options.gradient_as_bucket_view = arguments.value("gradient_as_bucket_view", false);
  options.broadcast_buffers = arguments.value("broadcast_buffers", true);
  return options;
}

class DdpRun {
 public:
  DdpRun(const Json& given, int rank)
      : given_(given),
        groups_(given.at("world").get<int>(), rank),
        s_({.device = Device::cpu, .watched = true}),
        log_(groups_),
        ddp_log_(log_),
        model_(collectives_model(s_, given.at("model"))) {
    s_.observe(log_);
    log_.counts_buckets = true;
    for (const NamedParameter& named : named_parameters_of(*model_.root)) {
      names_.push_back(named.name);
      parameters_.push_back(named.tensor());
    }
  }

  Json play() {
    Json result{{"trainable_params", trainable_elements()}, {"param_order", parameter_order()}};
    log_.phase("construct");
    mark();
    wrap_checkpoints(given_, *model_.root, model_.blocks, [](const Module&) { return false; });
    construct();
    result["buckets_initial"] = buckets();
    TrainingHooks hooks{
        .forward = [this](const Arguments& batch) { return call(s_, *ddp_->module(), batch); }};
    hooks.micro_batch = [this](bool last) { return synchronization(last); };
    hooks.step = [this] {
      if (zero_) zero_->step([] {});
    };
    hooks.action = [this](const Json& action) { act(action); };
    hooks.parameters = parameters_;
    run_training(s_, log_, given_, *model_.root, hooks);
    if (zero_) result["zero1_partition"] = partition();
    if (ddp_->reducer().has_rebuilt_buckets()) result["buckets_rebuilt"] = buckets();
    Json all{{"groups", log_.groups()}};
    all.update(result);
    all["events"] = log_.events();
    return all;
  }

 private:
  std::int64_t trainable_elements() const {
    std::int64_t elements = 0;
    for (const Tensor& parameter : parameters_)
      if (parameter.requires_grad()) elements += parameter.numel();
    return elements;
  }

  Json parameter_order() const {
    Json rows = Json::array();
    for (std::size_t i = 0; i < names_.size(); ++i)
      rows.push_back(Json::array({names_[i], parameters_[i].sizes().span()}));
    return rows;
  }

  void mark() {
    const bool marks = given_.value("mark_backward", true);
    for (const std::string& name : model_.tracked) {
      Module& module = module_named(*model_.root, name);
      mark_forward(log_, module, name, marks);
      mark_backward(log_, module, name, marks);
    }
    mark_forward(log_, *model_.root, "root", marks);
    mark_backward(log_, *model_.root, "root", marks);
  }

  void construct() {
    ddp::Options options = options_of(given_.value("ddp", Json::object()));
    options.watchers = {&ddp_log_};
    ddp_ = std::make_unique<ddp::DistributedDataParallel>(s_, model_.root, groups_.world(),
                                                          std::move(options));
    if (given_.value("mark_backward", true))
      for (std::size_t i = 0; i < names_.size(); ++i)
        if (parameters_[i].requires_grad())
          register_post_accumulate_grad_hook(s_, parameters_[i],
                                             [this, i](Session&, const Tensor&) {
                                               log_.add("grad_ready", {{"param", names_[i]}});
                                             });
    if (!given_.contains("zero1")) return;
    zero_ = std::make_unique<ddp::ZeroRedundancyOptimizer>(
        s_, parameters_, groups_.world(),
        ddp::ZeroRedundancyOptimizer::Options{.parameters_as_bucket_view = given_.at("zero1").value(
                                                  "parameters_as_bucket_view", false),
                                              .watchers = {&ddp_log_}});
  }

  /// ddp_buckets of the recorder.
  Json buckets() const {
    // The reducer counts trainable parameters only.
    std::vector<std::string> trainable;
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (parameters_[i].requires_grad()) trainable.push_back(names_[i]);
    Json rows = Json::array();
    const auto& buckets = ddp_->reducer().buckets();
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      Json names = Json::array();
      for (const std::size_t variable : buckets[i].variables) names.push_back(trainable[variable]);
      rows.push_back({{"index", i},
                      {"numel", buckets[i].gradients.numel()},
                      {"dtype", name_of(buckets[i].gradients.dtype())},
                      {"is_last", i + 1 == buckets.size()},
                      {"params", names}});
    }
    return rows;
  }

  /// By rank, by parameter group (there is one).
  Json partition() const {
    Json rows = Json::array();
    for (const std::vector<std::size_t>& owned : zero_->partition()) {
      Json names = Json::array();
      for (const std::size_t index : owned) names.push_back(names_[index]);
      rows.push_back(Json::array({names}));
    }
    return rows;
  }

  std::shared_ptr<void> synchronization(bool last) {
    const Json accumulate = given_.value("accumulate", Json::object());
    if (last || accumulate.value("micro", 1) <= 1 || !accumulate.value("no_sync", false)) return {};
    return std::make_shared<ddp::DistributedDataParallel::NoSync>(*ddp_);
  }

  /// Every rank but the one that collects broadcasts its pickled state: its size is Python's
  /// affair.
  void act(const Json& action) {
    if (action != "consolidate_state_dict") return;
    log_.enter("consolidate_state_dict");
    for (int rank = 1; rank < groups_.world().size(); ++rank) {
      broadcast(s_, groups_.world(), allocate(s_, {Dtype::int64, Device::cpu}, {1}), rank);
      broadcast(s_, groups_.world(), allocate(s_, {Dtype::uint8, Device::cpu}, {1}), rank);
    }
    log_.leave();
  }

  const Json& given_;
  ProcessGroups groups_;
  Session s_;
  EventLog log_;
  DdpLog ddp_log_;
  RecordedModule model_;
  std::vector<std::string> names_;
  Tensors parameters_;
  std::unique_ptr<ddp::DistributedDataParallel> ddp_;
  std::unique_ptr<ddp::ZeroRedundancyOptimizer> zero_;
};

Json play(const Json& given, int rank) { return DdpRun(given, rank).play(); }

}  // namespace

CollectivesFamily ddp_collectives() { return {.name = "ddp", .play = play}; }

CollectivesFamily zero1_collectives() { return {.name = "zero1", .play = play}; }

}  // namespace shardscope::recordings
