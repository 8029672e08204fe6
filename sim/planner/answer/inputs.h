// What a plan is asked, resolved: everything that its answer follows from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/native/job.h"
#include "core/schedule/target.h"
#include "sim/allocator/allocator_settings.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/planner/answer/run_cost.h"
#include "sim/planner/choice.h"
#include "sim/planner/enumerate.h"
#include "sim/planner/pytorch_training.h"
#include "sim/planner/search.h"
#include "sim/planner/written_choice.h"

namespace shardscope::planner {

/// A training that somebody has already, whose place is asked for.
struct Given {
  std::string name;          ///< of its file
  PytorchTraining training;  ///< of the plan's model and tokens
};

/// Whether pipelines are weighed.
enum class PipelinesAsked : std::uint8_t {
  as_usual,  ///< nobody said: those of the native runtime, which are quick to weigh
  beside,    ///< the other strategies that were asked for
  alone,
  not_at_all
};

struct Inputs {
  Question question;
  Model model;
  JsonValue config;  ///< the config.json; an empty object where only native is asked
  HardwareProfile profile;
  Target native_target;              ///< what the native runtime's device asks of its schedules
  AllocatorSettings allocator;       ///< of PyTorch's runtimes
  std::optional<Bytes> margin;       ///< asked to stay free of a device; none: the usual one
  std::optional<Bytes> host_memory;  ///< of a node; none: not checked
  Objective objective = Objective::time;
  std::size_t places = 5;                    ///< strategies to show
  std::vector<ShardingStrategy> strategies;  ///< those that are weighed; empty: all
  PipelinesAsked pipelines = PipelinesAsked::as_usual;
  /// Nobody asked for the question's precisions: what is not among them is said.
  bool has_usual_precisions = false;
  /// Ways are eager, and what compiling their blocks would gain is said of the first.
  bool weighs_compilation = false;
  std::optional<Given> given;
  Job job;  ///< what the chosen file says beside the choice: model, data, optimizer, clipping
  Goals goals;
  /// Numbers of ranks to weigh, ascending; empty: the question's, and where costs count fewer.
  std::vector<int> worlds;
  std::vector<std::string> assumed;  ///< what nobody said, for people
};

/// What the question leaves open on `world` ranks and was asked for, and what was not. Throws Error
/// as `enumerate`, and where nothing is left.
Enumeration choices_of(const Inputs& inputs, int world);

/// The chosen strategy is one of this many, whatever number is shown.
inline constexpr std::size_t places_to_choose_from = 5;
/// Strategies to find: those to show and those to choose from.
inline std::size_t ranked_places(const Inputs& inputs) {
  return std::max(inputs.places, places_to_choose_from);
}

/// Devices of one node.
int ranks_per_node(const Inputs& inputs);

/// The longest step that the goals allow on `world` ranks.
std::optional<SlowestStep> slowest_step(const Inputs& inputs, int world);
/// "500 ms (--deadline 2)"; "" where every step is allowed.
std::string allowed_step_text(const Inputs& inputs, int world);

/// For the file of one of its choices.
WrittenFrom written_from(const Inputs& inputs);

}  // namespace shardscope::planner
