// What the launch scripts of published runs say where a table does not.
#pragma once

#include "sim/validate/published_row.h"

namespace shardscope {

/// Fills in what the row leaves out and its launch script says: the micro-batch and the
/// interleaving of Megatron-LM's table of April 2021, the shapes and the interleaving of Nemotron.
/// Other rows stay as they are. Sources: Megatron-LM examples/sc21/run_table_1.sh at 79a3bb6;
/// NeMo-Framework-Launcher launcher_scripts/conf/training/nemotron at 089b90e and 3be81fc.
void fill_launch_script(PublishedRow& row);

}  // namespace shardscope
