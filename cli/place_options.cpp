#include "cli/place_options.h"

namespace shardscope {

void declare_place_options(Command& command, PlaceOptions& options) {
  command.heading("Where");
  command.option("--world", options.world, {"N", "ranks in all"});
  command.option("--rank", options.rank, {"R", "the rank that is shown; 0 unless given"});
}

}  // namespace shardscope
