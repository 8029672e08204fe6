// The collectives of an imported trace with what a match needs: when the host issued them, for
// which unit, and how long the transfer took.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "traces/import/collectives.h"
#include "traces/match/profiled_units.h"

namespace shardscope {

struct ProfiledCollective {
  ImportedCollective seen;
  Duration issued;                   ///< by the host
  std::optional<std::size_t> unit;   ///< index into ProfiledUnits::units()
  std::optional<Duration> transfer;  ///< of the kernel, or of gloo's own event
};

/// In the order in which the host issued them. Of an operator of c10d that gloo carried out the
/// element type, where the operator does not say it, and the transfer's duration are taken from
/// gloo's event: the first of its kind and size that no earlier operator has and that ends after
/// the operator began.
std::vector<ProfiledCollective> profiled_collectives(const ImportedTrace& trace,
                                                     const HostTree& tree,
                                                     const ProfiledUnits& units);

}  // namespace shardscope
