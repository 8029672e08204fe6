// What `shardscope plan` is asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/job_options.h"
#include "cli/output_options.h"
#include "cli/place_options.h"
#include "cli/pytorch_options.h"
#include "cli/recipe_option.h"
#include "cli/sharding_options.h"
#include "core/pytorch/plans/runtime_request.h"
#include "core/schedule/strategy.h"
#include "sim/planner/answer/inputs.h"
#include "sim/planner/answer/run_cost.h"
#include "sim/planner/search.h"

namespace shardscope {

struct PlanOptions {
  JobOptions job;
  PlaceOptions place;
  ShardingOptions sharding;
  PytorchOptions pytorch;
  OutputOptions output;
  std::optional<std::string> cluster, runtimes, objective, folder, margin;
  std::optional<std::int64_t> places;
  std::optional<std::string> worlds, device_memory, host_memory, lengths, layouts, tensor;
  std::optional<double> price;                ///< of one GPU and hour, in whatever currency
  std::vector<std::string> clusters, prices;  ///< as they were given; see by_cluster
  std::optional<double> train_tokens, at_least, deadline_days, budget;
  std::optional<RecipeRun> recipe_run;  ///< of --config, beside the places

  /// What the lists say; empty: not given. Throw Error naming the option.
  std::vector<Runtime> asked_runtimes() const;  ///< without torchtitan
  bool asks_torchtitan() const;
  std::vector<TrainingPrecision> asked_precisions() const;
  std::vector<ShardingStrategy> asked_strategies() const;
  planner::PipelinesAsked asked_pipelines() const;
  planner::Objective asked_objective() const;
  /// Throws Error for another word, and without torchtitan.
  bool asks_all_layouts() const;
  /// Sizes of --tensor, above 1.
  std::vector<int> asked_tensor() const;
  std::optional<std::size_t> asked_places() const;
  planner::Goals asked_goals() const;
  /// "16", or "8..512": 8, 16, ... 512.
  std::vector<int> asked_worlds() const;
  /// The same question for each cluster that was given, with its price. Throws Error where one
  /// stands twice, or prices are neither one nor as many as clusters.
  std::vector<PlanOptions> by_cluster() const;
  bool has_file() const { return sharding.accelerate || sharding.deepspeed; }
};

void declare_plan_options(Command& command, PlanOptions& options);

/// "a,b" as its words, without empty ones.
std::vector<std::string> words_of_list(std::string_view text);

}  // namespace shardscope
