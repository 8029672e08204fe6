// What a verb is asked about, resolved: model, strategy, workload, world, and what had to be
// assumed.
#pragma once

#include <string>
#include <vector>

#include "cli/job_options.h"
#include "cli/place_options.h"
#include "cli/trained_model.h"
#include "core/model/huggingface.h"
#include "core/model/model.h"
#include "core/native/job.h"
#include "core/native/native_training.h"
#include "core/schedule/schedule.h"
#include "core/schedule/strategy.h"
#include "core/schedule/target.h"

namespace shardscope {

struct NativeScenario {
  Job job;
  Model model;        ///< with the job's parameters frozen
  Strategy strategy;  ///< resolved for `world`
  Workload workload;
  int world = 1;
  int rank = 0;
  std::vector<std::string> assumed;
};

/// Reads the model and checks everything that can be checked without a machine. Throws Error naming
/// option or key.
NativeScenario resolve_native_scenario(const JobOptions& options, const PlaceOptions& place,
                                       const ModelOptions& model = {});

/// The same of a job that is complete, on `world` ranks.
NativeScenario native_scenario_of(const Job& job, int world, int rank,
                                  const ModelOptions& model = {});

/// "cpu" or "cuda", or "auto" where that may be left open; throws Error naming --device.
enum class OrAuto : bool { no, yes };
std::string parse_device(const std::string& text, OrAuto or_auto = OrAuto::no);

/// A device as far as the schedule depends on it: which kernels' scratch is counted.
struct DeviceKind {
  std::string kind = "cpu";
  int threads = 1;  ///< of one rank, where the job does not say
};

/// What a device asks of the schedules that it runs.
Target native_target(const Job& job, const DeviceKind& device);

/// What the native runtime is asked for; the scenario must outlive it.
NativeTraining native_training(const NativeScenario& scenario);

/// The schedule of the scenario's rank, with the scratch that the device's kernels want.
Schedule schedule_of(const NativeScenario& scenario, const DeviceKind& device);
/// Of the scenario's rank and its peers in the other stages of the pipeline, in order.
std::vector<Schedule> schedules_of_stages(const NativeScenario& scenario, const DeviceKind& device);

/// Its pipeline; of one rank where it has none.
PipelineSetup setup_of(const NativeScenario& scenario);

}  // namespace shardscope
