// The kind `pipeline`: orders of torch.distributed.pipelining's schedules, and what runs of them
// do.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/refusal.h"
#include "core/pipeline/pipeline_schedule.h"
#include "core/pipeline/program.h"
#include "tests/recordings/pipeline_events.h"
#include "tests/recordings/ports/pipeline_tables.h"
#include "tests/recordings/recorded_file.h"
#include "tests/recordings/recorded_outcome.h"
#include "tests/recordings/recordings.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

const std::vector<std::string> fields{
    "refused",          "pipeline_order_source",       "pipeline_order",
    "stage_to_rank",    "pipeline_order_with_comms",   "n_local_stages",
    "number_of_rounds", "microbatches_per_round",      "formatted",
    "executed",         "executed_same_in_every_step", "executed_equals_table",
    "run_events"};

void read_lookahead(const Json& recorded, PipelineOptions& options) {
  if (recorded.is_array()) {
    options.unshard_lookahead = recorded.get<std::vector<int>>();
  } else if (recorded == "auto") {
    options.unshard_lookahead = UnshardLookahead::automatic;
  } else if (recorded != "full") {
    throw Refusal("ValueError", "unshard_lookahead must be 'full', 'auto', or a tuple");
  }
}

PipelineOptions options_of(const Json& recorded) {
  PipelineOptions options;
  for (const auto& [key, value] : recorded.items()) {
    if (key == "max_active_stages") {
      options.max_active_stages = value.get<int>();
    } else if (key == "unshard_lookahead") {
      read_lookahead(value, options);
    } else if (key == "defer_pp_recv") {
      options.defer_receives = value.get<bool>();
    } else if (key == "defer_reduce_grad_wait") {
      options.defer_reduce_grad_wait = value.get<bool>();
    } else if (key == "max_outstanding_sends") {
      if (!value.is_null()) options.max_outstanding_sends = value.get<int>();
    } else if (key != "scale_grads") {
      throw Refusal("TypeError", "there is no argument " + key);
    }
  }
  return options;
}

PipelineSetup setup_of(const Json& given) {
  PipelineSetup setup{
      .kind = parse_pipeline_schedule(given.at("schedule").get<std::string>(), "schedule"),
      .ranks = given.at("ranks").get<int>(),
      .stages_per_rank = given.at("stages_per_rank").get<int>(),
      .micro_batches = given.at("microbatches").get<int>(),
      .options = {}};
  setup.options = options_of(given.value("options", Json::object()));
  return setup;
}

Json texts_of(const std::vector<ActionOrder>& orders) {
  Json texts;
  for (std::size_t rank = 0; rank < orders.size(); ++rank) {
    Json& row = texts[std::to_string(rank)] = Json::array();
    for (const ActionSlot& slot : orders[rank]) row.push_back(text_of(slot));
  }
  return texts;
}

/// In the order in which the stages come up in the ranks' orders, where PyTorch finds them there.
Json stage_to_rank_of(const PipelineSetup& setup, const std::vector<ActionOrder>& orders) {
  const std::vector<int> rank_of_stage = rank_of_stages(setup);
  Json stages;
  for (const ActionOrder& order : orders)
    for (const ActionSlot& slot : order)
      for (const Action& action : slot.actions())
        stages[std::to_string(action.stage)] =
            rank_of_stage[static_cast<std::size_t>(action.stage)];
  return stages;
}

void add_attributes(const PipelineSetup& setup, Json& got) {
  if (has_single_stage(setup.kind) || setup.kind == PipelineScheduleKind::looped_bfs) return;
  got["n_local_stages"] = setup.stages_per_rank;
  if (is_v_shaped(setup.kind)) return;
  got["number_of_rounds"] = rounds_of(setup).count;
  got["microbatches_per_round"] = rounds_of(setup).micro_batches;
}

/// Compute actions of a table, overlapped ones apart.
Json computes_of(const ActionOrder& order) {
  Json computes = Json::array();
  for (const ActionSlot& slot : order)
    for (const Action& action : slot.actions())
      if (is_compute(action.kind)) computes.push_back(text_of(action));
  return computes;
}

void add_run(const Json& given, const PipelineSetup& setup, const std::vector<ActionOrder>& printed,
             Json& got) {
  const bool events = given.value("run", false);
  if (!events && !given.value("execute", false)) return;
  const std::vector<PipelineProgram> programs = pipeline_programs(setup);
  Json equal;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    const std::string key = std::to_string(rank);
    got["executed"][key] = executed_of(programs[rank]);
    equal[key] = got["executed"][key] == computes_of(printed[rank]);
  }
  got["executed_same_in_every_step"] = true;
  got["executed_equals_table"] = equal;
  if (events) got["run_events"] = run_events(setup, programs, given.value("steps", 2));
}

Json played(const Json& given) {
  Json got;
  try {
    const PipelineSetup setup = setup_of(given);
    const bool single = has_single_stage(setup.kind);
    const std::vector<ActionOrder> printed = printed_orders(setup);
    got["pipeline_order_source"] = single ? "_get_pipeline_order()" : "schedule.pipeline_order";
    got["pipeline_order"] = texts_of(printed);
    got["stage_to_rank"] = stage_to_rank_of(setup, printed);
    if (!single) got["pipeline_order_with_comms"] = texts_of(lowered_schedule(setup).lowered);
    add_attributes(setup, got);
    got["formatted"] = formatted_orders(printed);
    add_run(given, setup, printed, got);
  } catch (const Refusal& refusal) {
    return {{"refused", refusal.exception() + ": " + refusal.parts().what}};
  }
  return got;
}

/// A pickled object's size is Python's affair.
Json expected(Json recorded) {
  recorded.erase("case");
  recorded.erase("torch");
  if (recorded.contains("run_events"))
    for (Json& event : recorded["run_events"])
      if (event.value("dtype", "") == "uint8") event["numel"] = 0;
  return recorded;
}

std::vector<std::string> cases(const fs::path& folder) { return recorded_names(folder, {"cases"}); }

Outcome check(const fs::path& folder, const std::string& name, const Options& options) {
  const Json recorded = recorded_json(folder, name);
  return compared(expected(recorded), played(recorded.at("case")), options);
}

}  // namespace

Kind pipeline_kind() {
  return {.name = "pipeline", .fields = fields, .cases = cases, .check = check};
}

}  // namespace shardscope::recordings
