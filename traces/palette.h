// Colours of pictures. Source: Okabe and Ito, "Color Universal Design", 2008: told apart under
// every colour blindness.
#pragma once

#include <string_view>

#include "core/schedule/schedule.h"

namespace shardscope::palette {

inline constexpr std::string_view ink = "#222222";
inline constexpr std::string_view faint_ink = "#666666";
inline constexpr std::string_view grid = "#e4e4e4";
inline constexpr std::string_view lane = "#f5f5f5";
inline constexpr std::string_view slate = "#b4c1cc";

inline constexpr std::string_view blue = "#0072b2";
inline constexpr std::string_view sky = "#56b4e9";
inline constexpr std::string_view green = "#009e73";
inline constexpr std::string_view yellow = "#f0e442";
inline constexpr std::string_view orange = "#e69f00";
inline constexpr std::string_view vermilion = "#d55e00";
inline constexpr std::string_view purple = "#cc79a7";
inline constexpr std::string_view grey = "#9a9a9a";

std::string_view of(MemoryCategory category);
/// Compute by its phase, collectives by their kind, copies.
std::string_view of(OperationKind kind, Phase phase);

}  // namespace shardscope::palette
