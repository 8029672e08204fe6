// What recorded work costs on a machine, for a recording that keeps virtual time.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/recording/recorded_operator.h"
#include "sim/cost/cost_model.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

/// Costs as `simulate --recording` has them. Refers to the profile, which must outlive it.
class RecordedCosts {
 public:
  /// Of one of `world` ranks.
  RecordedCosts(const HardwareProfile& profile, int world)
      : profile_(profile), model_(profile), world_(world) {}

  /// Nanoseconds of a question of the simulated device (docs/recording.md); 0 of what is none.
  std::int64_t answer(std::string_view question) const;

 private:
  using Fields = std::vector<std::string_view>;
  Duration cost_of(const Fields& fields) const;
  Duration call(const Fields& fields) const;
  Duration host(const Fields& fields) const;
  Duration copy(const Fields& fields) const;
  Duration product(const Fields& fields) const;
  Duration collective(const Fields& fields) const;

  const HardwareProfile& profile_;
  CostModel model_;
  int world_;
};

}  // namespace shardscope
