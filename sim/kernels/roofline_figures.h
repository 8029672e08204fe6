// RooflineFigures: what the data sheet of a GPU says, as far as kernels' times depend on it.
#pragma once

#include <cstdint>

#include "core/base/clock_and_power.h"
#include "core/base/quantities.h"

namespace shardscope {

struct RooflineFigures {
  int multiprocessors = 0;
  FlopRate peak;  ///< of the dtype at hand
  Bandwidth memory_bandwidth;
  Power power_limit;  ///< 0: not known
  /// Of the peak, by large products of the dtype at hand on this card under `reached_power`; 0: not
  /// measured.
  double reached = 0;
  Power reached_power = {};
};

}  // namespace shardscope
