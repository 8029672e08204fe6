// The training loop that record.py of ../shared/data/pytorch/memory runs, on the engine.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/pytorch/runtimes/training/fsdp2_model.h"
#include "tests/recordings/memory.h"
#include "tests/recordings/memory_live.h"
#include "tests/recordings/ports/fsdp2_mem_tracker.h"
#include "tests/recordings/ports/mem_tracker.h"
#include "tests/recordings/ports/sharding_propagation.h"
#include "tests/recordings/recorded_step.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using namespace eager;
using eager::Module;  // not the model's

Json categories_of(const CategoryTracker& tracker, const TrackedMemory& memory) {
  Json row = Json::object();
  for (std::size_t i = 0; i < tracker.categories().size(); ++i)
    row[std::string(tracker.categories()[i])] = memory.bytes[i];
  row["Total"] = memory.total;
  return row;
}

Json columns_of(const CategoryTracker& tracker, const TrackedMemory& memory) {
  Json row = Json::array();
  for (std::size_t i = 0; i < tracker.categories().size(); ++i) row.push_back(memory.bytes[i]);
  row.push_back(memory.total);
  return row;
}

/// Each category's own maximum, and where the tracker's peak was, operator by operator.
class Maxima final : public Observer {
 public:
  Maxima(const CategoryTracker& tracker, const LiveStorages& live)
      : tracker_(tracker), live_(live) {}

  void restart(int iteration) {
    most_ = tracker_.current();
    peak_ = tracker_.current().total;
    peak_at_ = Json::array({"(start)", live_.operators(), fmt::format("{}:start", iteration)});
  }
  const TrackedMemory& most() const { return most_; }
  const Json& peak_at() const { return peak_at_; }

  void on_operator(Session&, const OperatorCall&) override {
    const TrackedMemory& now = tracker_.current();
    for (std::size_t i = 0; i < TrackedMemory::most_categories; ++i)
      most_.bytes[i] = std::max(most_.bytes[i], now.bytes[i]);
    most_.total = std::max(most_.total, now.total);
    if (tracker_.peak().total == peak_) return;
    peak_ = tracker_.peak().total;
    peak_at_ = live_.here();
  }

 private:
  const CategoryTracker& tracker_;
  const LiveStorages& live_;
  TrackedMemory most_;
  std::int64_t peak_ = 0;
  Json peak_at_;
};

std::unique_ptr<CategoryTracker> tracker_of(Session& s, ParallelModel& model) {
  if (auto* fsdp2 = dynamic_cast<Fsdp2Model*>(&model))
    return std::make_unique<fsdp2::FsdpMemTracker>(s, fsdp2->sharded());
  return std::make_unique<MemTracker>(s);
}

/// Whether the recorder keeps a module's figures: the root's and the blocks'.
bool is_wanted(std::string name) {
  for (const std::string_view part : {"._checkpoint_wrapped_module", "._fsdp_wrapped_module"})
    for (std::size_t at = name.find(part); at != std::string::npos; at = name.find(part))
      name.erase(at, part.size());
  const std::size_t last = name.rfind('.');
  if (last == std::string::npos) return true;
  const std::size_t before = name.rfind('.', last - 1);
  const std::string list = name.substr(before + 1, last - before - 1);
  const bool number = name.find_first_not_of("0123456789", last + 1) == std::string::npos;
  return number && (list == "h" || list == "layers" || list == "layer");
}

class MemoryStep {
 public:
  explicit MemoryStep(const Json& settings)
      : settings_(with_step_defaults(settings)),
        s_(step_session(true)),
        live_(s_),
        is_tracked_(settings_.at("tracker") == "library"),
        step_(s_, settings_) {
    tracker_ = tracker_of(s_, step_.model());
    maxima_.emplace(*tracker_, live_);
    if (settings_.at("timeline").get<bool>()) live_.keep_log();
    if (auto* fsdp2 = dynamic_cast<Fsdp2Model*>(&step_.model()))
      propagation_.emplace(fsdp2->sharded());
  }

  Json result() {
    watch();
    const auto after_init = by_category(tracker_->current());
    live_.refresh();
    Json result{{"iterations", Json::array()},
                {"after_init", after_init},
                {"own_after_init", live_.total()},
                {"categories", Json::array()}};
    for (const auto& [name, bytes] : after_init.items()) result["categories"].push_back(name);
    for (iteration_ = 1; iteration_ <= settings_.at("iters"); ++iteration_)
      result["iterations"].push_back(run_iteration());
    result["optimizer_state_bytes"] = state_bytes();
    result["parameters_total"] = step_.described().parameter_elements();
    result["timeline"] = live_.log();
    return result;
  }

 private:
  void watch() {
    s_.observe(live_);
    Module& module = step_.model().module();
    if (is_tracked_) watch_by_category(module);
    for (const NamedParameter& named : named_parameters_of(module))
      live_.add(*named.tensor().storage());
    if (propagation_)
      live_.count_before(
          [this](const OperatorCall& call) { return propagation_->operators_before(call); });
    for (const auto& [name, buffer] : named_buffers_of(module)) live_.add(*buffer.storage());
    for (const Tensor& input : step_.loop().inputs()) live_.add(*input.storage());
  }

  void watch_by_category(Module& module) {
    s_.observe(*tracker_);
    s_.observe(*maxima_);
    tracker_->track_model(module);
    for (const Tensor& input : step_.loop().inputs()) tracker_->track_input(input);
    tracker_->enter(module);
  }

  Json by_category(const TrackedMemory& memory) const {
    return is_tracked_ ? categories_of(*tracker_, memory) : Json::object();
  }

  void phase(const char* name) { live_.set_phase(fmt::format("{}:{}", iteration_, name)); }

  void probe(const std::string& name) {
    live_.refresh();
    snapshots_[name] = by_category(tracker_->current());
    own_snapshots_[name] = live_.total();
    if (!name.starts_with("after_backward")) return;
    if (wants_modules()) modules_ = module_rows();
    tracker_->reset_modules();
  }

  bool wants_modules() const {
    for (const Json& iteration : settings_.at("modules"))
      if (iteration == iteration_) return true;
    return false;
  }

  Json module_rows() const {
    Json rows = Json::object();
    for (const CategoryTracker::OfModule& module : tracker_->modules()) {
      if (!is_wanted(module.name)) continue;
      Json& row = rows[module.name] = Json::object();
      for (const auto& [moment, snapshots] : module.snapshots)
        for (const TrackedMemory& memory : snapshots)
          row[std::string(moment)].push_back(columns_of(*tracker_, memory));
    }
    return rows;
  }

  Json run_iteration() {
    live_.refresh();
    phase(iteration_ == 1 ? "init" : "zero_grad");
    tracker_->restart_peak();
    maxima_->restart(iteration_);
    live_.restart_peak();
    snapshots_ = own_snapshots_ = Json::object();
    step_.loop().iteration(
        [this](Moment moment, int micro_batch) { reached(moment, micro_batch); });
    live_.refresh();
    Json row{{"snapshots", snapshots_},
             {"own_snapshots", own_snapshots_},
             {"peak", by_category(tracker_->peak())},
             {"peak_at", maxima_->peak_at()},
             {"category_max", by_category(maxima_->most())},
             {"own_peak", live_.peak()},
             {"own_peak_at", live_.peak_at()}};
    if (wants_modules()) row["modules"] = modules_;
    tracker_->reset_modules();
    return row;
  }

  void reached(Moment moment, int micro_batch) {
    if (moment == Moment::step) tracker_->end_optimizer_step(step_.loop().optimizer_states());
    if (moment > Moment::micro_batch) probe(snapshot_name(settings_, moment, micro_batch));
    const bool last = micro_batch + 1 == settings_.at("accum");
    const bool clips = !settings_.at("clip").is_null();
    switch (moment) {
      case Moment::start:
        return;
      case Moment::micro_batch:
        return phase("forward");
      case Moment::forward:
        if (settings_.at("loss") != "model") phase("loss");
        return;
      case Moment::loss:
        return phase("backward");
      case Moment::backward:
        if (!last) return;
        if (propagation_) propagation_->begin_updates();
        return clips ? phase("clip") : begin_step();
      case Moment::clip:
        return begin_step();
      case Moment::step:
        return phase("zero_grad");
      case Moment::zero_grad:
        if (propagation_) propagation_->end_updates();
        return;
    }
  }

  void begin_step() {
    phase("step");
    tracker_->begin_optimizer_step();
  }

  std::int64_t state_bytes() {
    std::int64_t bytes = 0;
    for (const Tensor& state : step_.loop().optimizer_states())
      if (state.device() == Device::cuda) bytes += state.storage()->bytes().count;
    return bytes;
  }

  Json settings_;
  Session s_;
  LiveStorages live_;
  bool is_tracked_;  ///< false: where the library's tracker refuses the case
  std::unique_ptr<CategoryTracker> tracker_;  // sees the model go
  std::optional<Maxima> maxima_;
  RecordedStep step_;
  std::optional<fsdp2::ShardingPropagation> propagation_;
  int iteration_ = 0;
  Json snapshots_, own_snapshots_, modules_;
};

}  // namespace

Json memory_result(const Json& recorded) { return MemoryStep(recorded.at("settings")).result(); }

}  // namespace shardscope::recordings
