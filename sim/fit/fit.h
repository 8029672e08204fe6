// Corrects the constants of a hardware profile by what a real run took.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/fit/observations.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

/// One constant, or all samples of one kind, before and after.
struct FittedConstant {
  std::string name;   ///< "kernels linear_forward", "link.bandwidth"
  std::string was;    ///< "31.2 ms a step", "370.8 GB/s"
  std::string is;     ///< the same of what was measured
  double factor = 1;  ///< is over was
  std::size_t timings = 0;
};

struct Fit {
  HardwareProfile profile;
  std::vector<FittedConstant> constants;
  /// Sum over operations of |predicted - measured| over the sum of measured, of calls that the fit
  /// has not seen where `is_held_out`.
  double residual_before = 0;
  double residual_after = 0;
  bool is_held_out = false;
};

/// Every second step is held out, where there are several; medians of the others count. What was
/// observed replaces a sample or becomes one, and other samples of its kind go along by the kind's
/// factor. Where the profile has a link and no samples, and the run is another program's,
/// collectives correct the link instead (fit_links.h); products correct the peak, large copies
/// bandwidths, and launches the overhead of an operation. A data sheet (`gpu`) is corrected by what
/// the cost model makes of it, so that the corrected figure predicts what was measured.
/// `provenance` is that of every constant that changes. Throws Error where nothing can be compared.
Fit fit(const HardwareProfile& profile, const RunObservations& run, const Provenance& provenance);

}  // namespace shardscope
