#include "core/recording/recorded_names.h"

namespace shardscope {

std::uint32_t RecordedNames::name(std::string_view name) {
  const auto [found, fresh] =
      names_.try_emplace(std::string(name), static_cast<std::uint32_t>(schedule_.names.size()));
  if (fresh) schedule_.names.emplace_back(name);
  return found->second;
}

std::uint32_t RecordedNames::shapes(const std::string& text) {
  const auto [found, fresh] =
      shapes_.try_emplace(text, static_cast<std::uint32_t>(schedule_.shapes.size()));
  if (fresh) schedule_.shapes.push_back(text);
  return found->second;
}

std::uint32_t RecordedNames::work(const DeviceWork& work) {
  const auto [found, fresh] =
      works_.try_emplace(work, static_cast<std::uint32_t>(schedule_.works.size()));
  if (fresh) schedule_.works.push_back(work);
  return found->second;
}

OwnerId RecordedNames::owner(std::string_view name) {
  const auto [found, fresh] =
      owners_.try_emplace(std::string(name), OwnerId::of(schedule_.owners.size()));
  if (fresh) schedule_.owners.emplace_back(name);
  return found->second;
}

}  // namespace shardscope
