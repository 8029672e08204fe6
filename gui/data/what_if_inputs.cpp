#include "gui/data/what_if_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/format/is_there.h"
#include "core/model/huggingface.h"
#include "core/model/read_model.h"
#include "core/model/trainable.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "core/schedule/samples.h"
#include "sim/planner/choice_json.h"
#include "sim/planner/enumerate.h"
#include "traces/run_folder.h"

namespace shardscope::gui {
namespace {

using planner::Choice;
using planner::Prefetch;

Error no_ground(std::string where, std::string what) {
  return Error({.where = std::move(where),
                .what = std::move(what),
                .way_out = "open a run folder that `shardscope train` or `simulate -o` left"});
}

std::filesystem::path required(const std::filesystem::path& file) {
  if (!is_there(file)) throw no_ground(file.string(), "no such file, which What-if starts from");
  return file;
}

TrainingPrecision precision_of(std::string_view name, std::vector<std::string>& notes) {
  for (const TrainingPrecision precision :
       {TrainingPrecision::fp32, TrainingPrecision::bf16, TrainingPrecision::bf16_mixed,
        TrainingPrecision::fp16_mixed})
    if (name == name_of(precision)) return precision;
  notes.push_back(fmt::format("precision {} is taken for bf16_mixed", name));
  return TrainingPrecision::bf16_mixed;
}

/// Elements of one block of the model; 0: it has none.
std::int64_t elements_of_block(const Model& model) {
  if (!model.decoder || model.decoder->blocks.empty()) return 0;
  const std::string block = model.decoder->blocks.front().module + ".";
  std::int64_t elements = 0;
  for (const Parameter& parameter : model.parameters)
    if (parameter.name.starts_with(block)) elements += parameter.elements();
  return elements;
}

int blocks_per_unit(const Wrap& wrap, const Model& model, std::vector<std::string>& notes) {
  if (wrap.policy == WrapPolicy::none) return 0;
  const std::int64_t block = elements_of_block(model);
  if (wrap.policy == WrapPolicy::transformer || block == 0) return 1;
  const auto blocks = static_cast<int>(std::max<std::int64_t>(1, wrap.min_elements / block));
  if (wrap.min_elements != blocks * block)
    notes.push_back(fmt::format("wrap {} is taken for units of {} block{}", text_of(wrap), blocks,
                                blocks == 1 ? "" : "s"));
  return blocks;
}

Prefetch prefetch_of(const Prefetching& prefetching, std::vector<std::string>& notes) {
  for (const Prefetch one : {Prefetch::both, Prefetch::pre, Prefetch::post, Prefetch::none})
    if (planner::native_prefetching(one) == prefetching) return one;
  notes.push_back(fmt::format("prefetch {} is taken for on", text_of(prefetching)));
  return Prefetch::both;
}

eager::CheckpointChoice checkpointing_of(const Checkpointing& checkpointing,
                                         std::vector<std::string>& notes) {
  if (checkpointing.first > 0 || (checkpointing.selective && checkpointing.every > 0))
    notes.push_back(fmt::format("checkpointing {} is taken for full", text_of(checkpointing)));
  else if (checkpointing.selective)
    return {.every = 1, .selective = true};
  return {.every = checkpointing.any() ? std::max(1, checkpointing.every) : 0};
}

class WhatIfInputsReader {
 public:
  WhatIfInputsReader(const Scenario& scenario, const Summary& summary)
      : scenario_(scenario), summary_(summary), inputs_(std::make_shared<WhatIfInputs>()) {}

  WhatIfInputsPointer read() {
    const RunFolder folder{scenario_.path};
    inputs_->label = scenario_.label;
    inputs_->folder = scenario_.path;
    inputs_->job = read_job(required(folder.job()));
    inputs_->machine = read_hardware_profile(required(folder.hardware()));
    if (has_training_of_its_own(folder)) {
      take_own_training(folder);
    } else {
      read_model_of_job();
      set_start();
    }
    if (const Side* side = scenario_.side(SideKind::predicted)) read_prediction(*side);
    return inputs_;
  }

 private:
  /// Under PyTorch, but for what torchtitan's loop and pipelines say otherwise.
  bool has_training_of_its_own(const RunFolder& folder) const {
    if (inputs_->machine.device != "cuda") return false;
    if (parse_runtime(summary_.runtime, "runtime") == Runtime::native) return false;
    if (!is_there(folder.predicted_choice())) return true;
    const Choice kept = planner::read_choice(folder.predicted_choice());
    return !kept.torchtitan && !planner::is_pipelined(kept);
  }

  void take_own_training(const RunFolder& folder) {
    auto own = std::make_shared<RunTraining>(training_of_run(folder, inputs_->machine));
    inputs_->job = own->job;
    inputs_->model = own->model;
    inputs_->config = own->config;
    inputs_->start.choice = own->choice;
    inputs_->start.length = own->training.setup.loop.length;
    inputs_->own = std::move(own);
  }

  void read_model_of_job() {
    const std::filesystem::path own = RunFolder{scenario_.path}.config();
    const std::filesystem::path path = is_there(own) ? own : inputs_->job.model;
    inputs_->model = read_model(required(path));
    freeze_all_but(inputs_->model, inputs_->job.trainable);
    const std::filesystem::path config = config_path(path);
    if (config.extension() != ".json" || !is_there(config)) return;
    JsonValue value = JsonValue::read_file(config, DuplicateKeys::last_wins);
    if (value.is_object() && value.has("model_type")) inputs_->config = std::move(value);
  }

  void set_start() {
    WhatIfSettings& start = inputs_->start;
    Choice& choice = start.choice;
    const Strategy& strategy = inputs_->job.strategy;
    choice.runtime = parse_runtime(summary_.runtime, "runtime");
    choice.sharding = parse_sharding_strategy(summary_.strategy, "strategy");
    choice.batch = inputs_->job.batch;
    choice.micro_batches = inputs_->job.accumulate;
    choice.precision = precision_of(summary_.precision, inputs_->notes);
    start.length = inputs_->job.seq;
    if (choice.runtime == Runtime::native) {
      const Strategy resolved_one = resolved(strategy, summary_.world, "strategy");
      choice.mesh = resolved_one.mesh;
      choice.pipeline = inputs_->job.pipeline;
      choice.blocks_per_unit = blocks_per_unit(strategy.wrap, inputs_->model, inputs_->notes);
      choice.prefetch = prefetch_of(strategy.prefetch, inputs_->notes);
      choice.offload = strategy.offload;
      choice.checkpointing = checkpointing_of(strategy.checkpointing, inputs_->notes);
      choice.reduces_every_micro_batch = strategy.reduce_every_micro_batch;
    } else {
      choice = planner::read_choice(required(RunFolder{scenario_.path}.predicted_choice()));
    }
  }

  void read_prediction(const Side& side) {
    if (side.summary) inputs_->predicted = side.summary->step_time;
    if (inputs_->start.choice.runtime != Runtime::native || !side.has_trace()) return;
    const MeasuredTarget measured = measured_target(
        inputs_->model, planner::native_strategy(inputs_->start.choice, inputs_->model),
        {.batch = inputs_->job.batch,
         .length = inputs_->job.seq,
         .micro_batches = inputs_->job.accumulate,
         .optimizer = inputs_->job.optimizer,
         .clip = inputs_->job.clip},
        host_role(inputs_->machine), *side.ranks.front());
    inputs_->target = measured.target;
    inputs_->measured_kernels = measured.kernels;
    if (!measured.is_complete)
      inputs_->notes.emplace_back(
          "scratch of matrix products not counted: the predicted trace shows another schedule");
  }

  const Scenario& scenario_;
  const Summary& summary_;
  std::shared_ptr<WhatIfInputs> inputs_;
};

bool shows(const Trace& trace, const Schedule& schedule) {
  return std::all_of(trace.facts.begin(), trace.facts.end(), [&](const OperationFacts& facts) {
    return facts.operation.value < schedule.operations.size() &&
           schedule.name(schedule.at(facts.operation)) == facts.name;
  });
}

struct KernelScratch {
  Kernel kernel;  ///< its cost key
  Bytes bytes;
};

/// The workspace alive while each operation runs is that of its kernel: no two kernels run at once.
std::vector<KernelScratch> scratch_of(const Schedule& schedule, const Trace& trace) {
  std::vector<Bytes> alive(schedule.operations.size());
  auto sample = trace.memory.begin();
  Bytes now;
  for (std::size_t i = 0; i < alive.size(); ++i) {
    for (; sample != trace.memory.end() && sample->operation && sample->operation.value <= i;
         ++sample)
      now = sample->live[MemoryCategory::workspace];
    alive[i] = now;
  }
  std::vector<KernelScratch> rows;
  std::vector<bool> seen(schedule.kernels.size());
  for (std::size_t i = 0; i < alive.size(); ++i) {
    const Operation& op = schedule.operations[i];
    const bool computes = op.kind == OperationKind::compute || op.kind == OperationKind::optimizer;
    if (!computes || op.detail == Operation::no_kernel || seen[op.detail]) continue;
    seen[op.detail] = true;
    rows.push_back({cost_key(schedule.kernels[op.detail]), alive[i]});
  }
  return rows;
}

}  // namespace

WhatIfInputsPointer what_if_inputs(const Scenario& scenario) {
  const Summary* summary = scenario.predicted && scenario.predicted->summary
                               ? &*scenario.predicted->summary
                               : scenario.summary();
  if (summary == nullptr || scenario.path.empty())
    throw no_ground(scenario.label,
                    "What-if starts from a run's job and machine, and this trace "
                    "has neither");
  return WhatIfInputsReader(scenario, *summary).read();
}

MeasuredTarget measured_target(const Model& model, const Strategy& strategy,
                               const Workload& workload, HostRole host, const Trace& predicted) {
  for (const bool joins : {false, true}) {
    Target target{.host = host, .workspace = {}, .fusions = {.linear_gelu = joins}};
    const Schedule schedule = native_schedule(model, strategy, workload, 0, target);
    if (!shows(predicted, schedule)) continue;
    const std::vector<KernelScratch> rows = scratch_of(schedule, predicted);
    std::vector<Kernel> kernels;
    for (const KernelScratch& row : rows) kernels.push_back(row.kernel);
    target.workspace = [rows](const Kernel& kernel) {
      const Kernel key = cost_key(kernel);
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const KernelScratch& known) {
        return known.kernel == key;
      });
      return row == rows.end() ? Bytes{} : row->bytes;
    };
    return {.target = std::move(target), .kernels = std::move(kernels), .is_complete = true};
  }
  return {};
}

}  // namespace shardscope::gui
