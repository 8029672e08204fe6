// RooflineFigures: what the data sheet of a GPU says, as far as kernels' times depend on it.
#pragma once

#include <algorithm>
#include <cmath>
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

/// Share of the full clock, where GPUs with the power limit `measured` keep `clock` of it. Dynamic
/// power is frequency times voltage squared, and voltage follows frequency: the clock goes with the
/// cube root of power. `clock` where either limit is not known.
inline double clock_under(const RooflineFigures& device, Power measured, double clock = 1) {
  if (device.power_limit.watts <= 0 || measured.watts <= 0) return clock;
  return std::min(1.0, clock * std::cbrt(device.power_limit.watts / measured.watts));
}

}  // namespace shardscope
