#include "cli/place_options.h"

#include "traces/memory_fit.h"

namespace shardscope {

void declare_place_options(Command& command, PlaceOptions& options) {
  command.heading("Where");
  command.option("--world", options.world, {"N", "number of ranks"});
  command.option("--rank", options.rank, {"R", "rank to show (default: 0)"});
}

void declare_margin_option(Command& command, std::optional<std::string>& margin) {
  command.option("--margin", margin,
                 {"BYTES|SHARE",
                  "device memory that should stay free, for what is not predicted: \"2 GiB\", 5% "
                  "(default: 4%, at least 1 GiB)"});
}

std::optional<Bytes> margin_of(const std::optional<std::string>& margin, Bytes memory) {
  if (!margin || memory <= Bytes{}) return std::nullopt;
  return parse_margin(*margin, memory, "--margin");
}

}  // namespace shardscope
