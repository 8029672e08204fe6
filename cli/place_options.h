// Options about where it runs: how many ranks, and which of them is looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.h"
#include "core/base/quantities.h"

namespace shardscope {

struct PlaceOptions {
  std::optional<std::int64_t> world, rank;
};

void declare_place_options(Command& command, PlaceOptions& options);

void declare_margin_option(Command& command, std::optional<std::string>& margin);
/// In bytes of a device with `memory`; none: the usual one (traces/memory_fit.h).
/// None where the memory is not known.
std::optional<Bytes> margin_of(const std::optional<std::string>& margin, Bytes memory);

}  // namespace shardscope
