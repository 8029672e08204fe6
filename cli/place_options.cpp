#include "cli/place_options.h"

namespace shardscope {

void declare_place_options(Command& command, PlaceOptions& options) {
  command.heading("Where");
  command.option("--world", options.world, {"N", "number of ranks"});
  command.option("--rank", options.rank, {"R", "rank to show (default: 0)"});
}

}  // namespace shardscope
