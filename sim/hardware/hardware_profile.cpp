#include "sim/hardware/hardware_profile.h"

#include <fmt/format.h>

#include <system_error>

#include "sim/hardware/builtin_profiles.h"

namespace shardscope {

FlopRate peak_of(const HardwareProfile& profile, Dtype dtype) {
  const bool one_byte = dtype == Dtype::uint8 || dtype == Dtype::int8;
  if (one_byte && profile.gpu && profile.gpu->float8) return *profile.gpu->float8;
  if (one_byte) return peak_of(profile, Dtype::bfloat16);
  if (dtype == Dtype::float16 && profile.gpu && profile.gpu->float16) return *profile.gpu->float16;
  return dtype == Dtype::bfloat16 ? profile.peak_bfloat16.value_or(profile.peak) : profile.peak;
}

HostRole host_role(const HardwareProfile& profile) {
  return profile.device == "cpu" ? HostRole::computes : HostRole::issues;
}

HardwareProfile find_hardware_profile(std::string_view name_or_path, std::string_view where) {
  if (const BuiltinProfile* profile = find_builtin_profile(name_or_path))
    return read_hardware_profile(JsonValue::parse(profile->text, profile->name));
  const std::filesystem::path path(name_or_path);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    throw Error(
        {.where = std::string(where),
         .what = fmt::format("no hardware profile \"{}\"", name_or_path),
         .way_out = fmt::format("give a file that `shardscope calibrate` wrote, or a ready one: {}",
                                builtin_profile_advice(name_or_path))});
  return read_hardware_profile(path);
}

}  // namespace shardscope
