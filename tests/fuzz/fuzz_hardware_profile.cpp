// Any bytes as a hardware profile: either an Error, or a profile that its own text gives back and
// that costs collectives, or says why not.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "core/format/json_reader.h"
#include "sim/collectives/collective_model.h"
#include "sim/hardware/hardware_profile.h"

namespace {

using shardscope::HardwareProfile;
using shardscope::JsonValue;

HardwareProfile profile_of(std::string_view text) {
  return shardscope::read_hardware_profile(JsonValue::parse(text, "profile.json"));
}

bool reads_back(const HardwareProfile& profile) {
  try {
    return profile_of(to_json(profile)) == profile;
  } catch (const shardscope::Error&) {
    return false;
  }
}

/// In a node and over several, in a row and over rails.
void cost_collectives(const HardwareProfile& profile) {
  using namespace shardscope;
  const CollectiveModel model(profile);
  for (const Ranks& ranks : {Ranks::up_to(2), Ranks::up_to(1024), Ranks::spaced(3, 8, 64)})
    for (const auto kind :
         {OperationKind::all_gather, OperationKind::all_reduce, OperationKind::send})
      try {
        if (model.cost(kind, 1_GB, ranks).time < Duration{}) std::abort();
      } catch (const Error&) {
      }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const HardwareProfile profile = profile_of({reinterpret_cast<const char*>(data), size});
    if (!reads_back(profile)) std::abort();
    cost_collectives(profile);
  } catch (const shardscope::Error&) {
  }
  return 0;
}
