// What step time and memory of pipelines cannot fall below, without schedules of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <tuple>
#include <vector>

#include "core/pipeline/compute_order.h"
#include "core/schedule/model_states.h"
#include "sim/planner/bounds.h"
#include "sim/planner/pipeline_costs.h"
#include "sim/planner/plain_step.h"
#include "sim/planner/torchtitan_probe.h"
#include "sim/planner/trial.h"

namespace shardscope::planner {

/// The parts of one micro-batch on one rank: of the native runtime by its schedule, of fsdp2 see
/// `torchtitan_costs`.
ModelCosts model_costs(const Choice& choice, const TrialInputs& inputs);

/// The same of all pipelined ones among some choices, recorded on `threads` cores; without blocks
/// where a `stop` came before, or where there is no such schedule.
std::map<PlainKey, ModelCosts> model_costs_of(std::span<const Choice> choices,
                                              const TrialInputs& inputs, unsigned threads,
                                              const std::stop_token& stop);

PipelineSetup setup_of(const Choice& choice);

OrderKey order_key(const PipelineSetup& setup);

/// Trained elements of all stages.
std::int64_t elements_in_stages(const Model& model);

/// Sharded states of so many trained elements in torchtitan; none claimed of bf16.
ModelStates torchtitan_states(const Choice& choice, std::int64_t trained,
                              const TrialInputs& inputs);

/// What the stages of torchtitan take, and by rank of the pipeline what comes around them.
struct StageTimes {
  StageCosts costs;
  Duration first_gather;             ///< of the first stage's root, which all wait for
  std::vector<Duration> gathers;     ///< of all parameters, once
  std::vector<Duration> reductions;  ///< of all gradients
  std::vector<Duration> updates;     ///< of the optimizer; 0 where its states are not known
  std::vector<Bytes> states;         ///< sharded parameters and optimizer states, the same way
};

/// Times of collectives among ranks that lie evenly apart: stages of many pipelines ask for the
/// same.
class CollectiveTimes {
 public:
  explicit CollectiveTimes(const CostModel& costs) : costs_(costs) {}

  struct Ask {
    OperationKind kind = OperationKind::all_gather;
    Bytes payload;
    int first = 0, apart = 1, ranks = 1;
    auto operator<=>(const Ask&) const = default;
  };
  Duration of(const Ask& ask);

 private:
  const CostModel& costs_;
  std::map<Ask, Duration> known_;
};

/// Lower bounds of the pipelined among some choices. Each (batch, checkpointing, dtypes) is
/// recorded once, whatever the number of stages:
///
///   time >= pipeline_time_bound; time >= pipeline_host_bound
///   time >= gathers or reductions inside a stage, whichever take longer
///   memory >= P + OS + what a rank keeps of micro-batches; memory >= P + G + OS
///   memory of fsdp2 >= P + OS + G, whole, + what a rank keeps, less one micro-batch
///   time of torchtitan >= first gather + a rank's part of pipeline_time_bound + its reductions
///             (with one stage a rank, where they follow the last backward) + its update
///
/// What a `stop` comes before has no bound: 0. Not to be used from several threads at once.
class PipelineBounds {
 public:
  explicit PipelineBounds(const TrialInputs& inputs)
      : inputs_(inputs), collectives_(inputs.costs) {}

  /// Makes these known, too: recorded on `threads` cores.
  void add(std::span<const Choice> choices, unsigned threads, const std::stop_token& stop);
  /// By `costs` of some of them; the others have no bound.
  void add(std::span<const Choice> choices, std::map<PlainKey, ModelCosts> costs,
           const std::stop_token& stop);

  /// Of one of the choices added.
  Bounds of(const Choice& choice) const;
  /// Of one of torchtitan. Throws Error where its costs are not known.
  StageTimes times_of(const Choice& choice) const;
  /// Of one of the choices added, by rank of the pipeline.
  const std::vector<ActionOrder>& orders_of(const Choice& choice) const;

 private:
  bool has_costs(const Choice& choice) const;
  bool is_known(const Choice& choice) const;
  struct Dealt;
  Dealt dealt(const Choice& choice) const;
  StageTimes times_of(const Choice& choice, const Dealt& dealt) const;
  std::vector<Bytes> held(const Choice& choice, const Dealt& dealt) const;
  using Orders = std::shared_ptr<const std::vector<ActionOrder>>;
  Orders known_orders(const PipelineSetup& setup) const;

  const TrialInputs& inputs_;
  ModelElements elements_;  ///< once there are costs
  std::map<PlainKey, ModelCosts> costs_;
  std::map<OrderKey, Orders> orders_;  ///< by rank
  /// What ranks hold does not depend on how many share a stage.
  using HeldKey = std::tuple<OrderKey, std::vector<int>, PlainKey, TrainingPrecision, bool, bool>;
  mutable std::map<HeldKey, std::vector<Bytes>> held_;
  mutable CollectiveTimes collectives_;
};

}  // namespace shardscope::planner
