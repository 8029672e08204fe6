// --config: the file of a fine-tuning tool, as if its settings stood on the command line.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/job_options.h"
#include "cli/job_settings.h"
#include "cli/output_options.h"
#include "cli/place_options.h"
#include "cli/pytorch_options.h"
#include "cli/sharding_options.h"

namespace shardscope {

void declare_recipe_option(Command& command, ShardingOptions& options);

/// Fills what no option says from the file that --config names; does nothing without it. A file of
/// accelerate, DeepSpeed or the Trainer counts as given with its own option. Notes what the tool
/// does with its keys, and what is not modelled. `usual_world`: ranks where neither file nor
/// options say how many. Throws Error with file, line and key.
void take_recipe(const JobSettings& settings, PlaceOptions& place, const OutputOptions& output,
                 int usual_world = 1);

/// The run that a tool makes of its file, in the options of `simulate`.
struct RecipeRun {
  std::string file;
  JobOptions job;
  ShardingOptions sharding;
  PytorchOptions pytorch;
  PlaceOptions place;
};

/// The same for `plan`, which chooses strategy, batch and checkpointing itself: the tokens of a
/// step are those of the file where --tokens-per-batch does not say them, on the ranks of `place`,
/// else of a node. Returns the file's own run where its strategy is one that plan can place: not of
/// a file of accelerate, DeepSpeed or the Trainer, which have options of their own, nor torchtitan.
std::optional<RecipeRun> take_recipe_to_plan(const JobSettings& settings, PlaceOptions& place,
                                             int ranks_of_a_node, const OutputOptions& output);

}  // namespace shardscope
