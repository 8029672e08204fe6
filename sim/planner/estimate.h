// What trials of choices are expected to say, from trials of the same choices with fewer blocks;
// and what was found out of choices, for the next search over them.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/pipeline_order.h"
#include "sim/planner/choice_prediction.h"
#include "sim/planner/made_once.h"
#include "sim/planner/mesh_recordings.h"
#include "sim/planner/pipeline_costs.h"
#include "sim/planner/plain_step.h"
#include "sim/planner/shallow.h"
#include "sim/planner/sharding_bounds.h"
#include "sim/planner/torchtitan_probe.h"
#include "sim/planner/torchtitan_trial.h"
#include "sim/planner/trial.h"

namespace shardscope::planner {

/// Of one model, machine and training: searches that differ in nothing but the device's memory
/// share it. Safe to use from several threads.
class Findings {
 public:
  Findings(const Model& model, const JsonValue& config, const Training& training = {})
      : shallow_(model, config, training) {}

  const ShallowModels& shallow() const { return shallow_; }

  /// `blocks`: that the model was cut to; 0: not cut.
  std::optional<Trial> trial(const Choice& choice, int blocks = 0) const {
    return found(trials_, key_of(choice, blocks));
  }
  void keep(const Choice& choice, const Trial& trial, int blocks = 0) {
    keep(trials_, key_of(choice, blocks), trial);
  }
  std::optional<PlainStep> plain(const PlainKey& key) const { return found(plain_, key); }
  void keep(const PlainKey& key, const PlainStep& step) { keep(plain_, key, step); }
  std::optional<ShardingBounds> sharding(const ShardingKey& key) const {
    return found(shardings_, key);
  }
  void keep(const ShardingKey& key, const ShardingBounds& bounds) { keep(shardings_, key, bounds); }
  std::optional<ModelCosts> parts(const PlainKey& key) const { return found(parts_, key); }
  void keep(const PlainKey& key, const ModelCosts& costs) { keep(parts_, key, costs); }
  std::optional<ProbedStages> stages(const ProbeKey& key) const { return found(stages_, key); }
  void keep(const ProbeKey& key, const ProbedStages& stages) { keep(stages_, key, stages); }
  std::optional<StageTimeline> timeline(const TimelineKey& key) const {
    return found(timelines_, key);
  }
  void keep(const TimelineKey& key, const StageTimeline& times) { keep(timelines_, key, times); }
  using Orders = std::shared_ptr<const std::vector<ActionOrder>>;
  std::optional<Orders> orders(const OrderKey& key) const { return found(orders_, key); }
  void keep(const OrderKey& key, const Orders& orders) { keep(orders_, key, orders); }

  /// Kept until the steps of all of them together are many.
  template <class Make>
  std::shared_ptr<const PipelineOrder> order_of_steps(const OrderKey& key, const Make& make) {
    constexpr std::size_t most_steps = 8'000'000;
    if (auto known = found(steps_, key)) return *known;
    const std::shared_ptr<const PipelineOrder> order = make();
    const std::scoped_lock lock(mutex_);
    if (kept_steps_ + order->steps() > most_steps) {
      steps_.clear();
      kept_steps_ = 0;
    }
    if (steps_.emplace(key, order).second) kept_steps_ += order->steps();
    return order;
  }

  /// What a choice was predicted to do on devices of so much memory.
  std::optional<ChoiceFigures> figures(const Choice& choice, Bytes memory) const {
    return found(figures_, std::pair(key_of(choice, 0), memory.count));
  }
  void keep(const Choice& choice, Bytes memory, const ChoiceFigures& figures) {
    keep(figures_, std::pair(key_of(choice, 0), memory.count), figures);
  }

  /// Of a choice that is known not to fit, or to leave less than the margin, whatever is played of
  /// it.
  std::optional<FullSimulation> unfit(const Choice& choice) const {
    return found(unfit_, key_of(choice, 0));
  }
  void keep_unfit(const Choice& choice, const FullSimulation& simulation) {
    keep(unfit_, key_of(choice, 0), simulation);
  }

  /// Of trials, with any number of blocks.
  MeshRecordings& of_meshes() { return of_meshes_; }
  /// Of the model's parts.
  MadeOnce<ModelElements>& elements() { return elements_; }
  /// What ranks of torchtitan's pipelines need.
  MadeOnce<RankMemory>& ranks() { return ranks_; }

  /// The whole recording of a choice, for who needs it next: it is given once. Of more than
  /// `most_kept_rows` together the oldest are let go.
  std::optional<Schedule> take_recording(const Choice& choice);
  void keep_recording(const Choice& choice, Schedule schedule);

 private:
  /// With the mesh, which the text has of hybrids alone.
  static std::string key_of(const Choice& choice, int blocks);

  template <class Key, class Value>
  std::optional<Value> found(const std::map<Key, Value>& values, const Key& key) const {
    const std::scoped_lock lock(mutex_);
    const auto at = values.find(key);
    return at == values.end() ? std::nullopt : std::optional(at->second);
  }
  template <class Key, class Value>
  void keep(std::map<Key, Value>& values, const Key& key, const Value& value) {
    const std::scoped_lock lock(mutex_);
    values.insert_or_assign(key, value);
  }

  ShallowModels shallow_;
  mutable std::mutex mutex_;
  std::map<std::string, Trial> trials_;
  std::map<std::pair<std::string, std::int64_t>, ChoiceFigures> figures_;
  std::map<std::string, FullSimulation> unfit_;
  std::map<PlainKey, PlainStep> plain_;
  std::map<ShardingKey, ShardingBounds> shardings_;
  std::map<PlainKey, ModelCosts> parts_;
  std::map<ProbeKey, ProbedStages> stages_;
  std::map<TimelineKey, StageTimeline> timelines_;
  std::map<OrderKey, Orders> orders_;
  std::map<OrderKey, std::shared_ptr<const PipelineOrder>> steps_;
  std::size_t kept_steps_ = 0;
  struct KeptRecording {
    std::string key;
    Schedule schedule;
  };
  std::list<KeptRecording> recordings_;  ///< the oldest first
  MeshRecordings of_meshes_;
  MadeOnce<ModelElements> elements_;
  MadeOnce<RankMemory> ranks_;
};

/// Its estimate is its stages' timeline (sim/planner/torchtitan_estimate.h), which tells near-equal
/// ones apart only as far as a trial of one of them corrects it.
inline bool is_rough(const Choice& choice) {
  return choice.torchtitan.has_value() && is_pipelined(choice);
}

/// By how much an estimated time may be above the trial's without misleading a search. It may be
/// far below, where a few blocks wait for other things than many do. DeepSpeed's buckets end at
/// other places in few blocks than in many: 1.1% is the most that was measured
/// (docs/measured/2026-11-28_plan_2_cores.md). With adapters it is 5% under all runtimes: the
/// first block has no gradient of its input, and gradients are so few that buckets end elsewhere.
/// Of 17 ways of a small Llama 4.2% was the most (tests/sim/planner/estimate_test.cpp).
double estimate_slack(const Choice& choice, const Training& training);

/// From two numbers of blocks. Of checkpointing every:K what one checkpointed block adds to a few
/// is added as often as there are such blocks. None where `inputs` has no findings, blocks are not
/// alike, or the runtime's program does not repeat with them: the native one's own schedule,
/// pipelines, FSDP1's one unit, DeepSpeed's where the blocks between do not fill a bucket: of what
/// it then checkpoints the rest is tried out whole. `periods`: as depths_of's, not of DeepSpeed.
std::optional<Trial> estimated(const Choice& choice, const TrialInputs& inputs,
                               const std::stop_token& stop = {}, int periods = 1);

/// From so many units on a runtime has gathered as many at once as it will: the memory of fewer
/// grows faster than that of more.
inline constexpr int settled_periods = 4;

/// The inputs with a model of so many blocks.
TrialInputs with_blocks(const TrialInputs& inputs, int blocks);

}  // namespace shardscope::planner
