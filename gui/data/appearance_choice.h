// Which appearance the user asked for.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace shardscope::gui {

enum class AppearanceChoice : std::uint8_t { system, light, dark };

/// In the order of the enumeration; what the command line and the settings call them.
inline constexpr std::array<std::string_view, 3> appearance_names{"system", "light", "dark"};

}  // namespace shardscope::gui
