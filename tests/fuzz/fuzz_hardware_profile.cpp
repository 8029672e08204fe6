// Any bytes as a hardware profile: either an Error, or a profile that its own text gives back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "core/format/json_reader.h"
#include "sim/hardware_profile.h"

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const HardwareProfile profile = profile_of({reinterpret_cast<const char*>(data), size});
    if (!reads_back(profile)) std::abort();
  } catch (const shardscope::Error&) {
  }
  return 0;
}
