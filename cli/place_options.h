// Options about where it runs: how many ranks, and which of them is looked at.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/command.h"

namespace shardscope {

struct PlaceOptions {
  std::optional<std::int64_t> world, rank;
};

void declare_place_options(Command& command, PlaceOptions& options);

}  // namespace shardscope
