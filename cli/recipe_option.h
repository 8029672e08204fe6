// --config: the file of a fine-tuning tool, as if its settings stood on the command line.
#pragma once

#include "cli/command.h"
#include "cli/job_settings.h"
#include "cli/output_options.h"
#include "cli/place_options.h"

namespace shardscope {

void declare_recipe_option(Command& command, ShardingOptions& options);

/// Fills what no option says from the file that --config names; does nothing without it. A file of
/// accelerate, DeepSpeed or the Trainer counts as given with its own option. Notes what the tool
/// does with its keys, and what is not modelled. Throws Error with file, line and key.
void take_recipe(const JobSettings& settings, PlaceOptions& place, const OutputOptions& output);

/// The same for `plan`, which chooses strategy, batch and checkpointing itself: the tokens of a
/// step are those of the file where --tokens-per-batch does not say them, on the ranks of `place`,
/// else of a node.
void take_recipe_to_plan(const JobSettings& settings, PlaceOptions& place, int ranks_of_a_node,
                         const OutputOptions& output);

}  // namespace shardscope
