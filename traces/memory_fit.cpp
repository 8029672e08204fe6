#include "traces/memory_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr double usual_share = 0.04;
constexpr Bytes least_usual = 1_GiB;

Bytes share_of(Bytes device_memory, double share) {
  return {static_cast<std::int64_t>(share * static_cast<double>(device_memory.count))};
}

std::optional<double> number_in(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end || !std::isfinite(number)) return std::nullopt;
  return number;
}

Bytes root_of_squares(const std::vector<MemoryAllowance>& allowances,
                      Bytes MemoryAllowance::*side) {
  double squares = 0;
  for (const MemoryAllowance& one : allowances) {
    const auto bytes = static_cast<double>((one.*side).count);
    squares += bytes * bytes;
  }
  return {std::llround(std::sqrt(squares))};
}

}  // namespace

std::string_view name_of(MemoryFit fit) {
  return fit == MemoryFit::yes ? "yes" : fit == MemoryFit::tight ? "tight" : "no";
}

Bytes usual_margin(Bytes device_memory) {
  return std::max(share_of(device_memory, usual_share), least_usual);
}

Bytes parse_margin(std::string_view text, Bytes device_memory, std::string_view where) {
  const auto refused = [&] {
    return Error({.where = std::string(where),
                  .what = fmt::format("expected 0 to less than the {} of the device, got \"{}\"",
                                      rounded_text(device_memory), text),
                  .way_out = "give bytes or a share, as in \"2 GiB\", 5% or 0.05"});
  };
  const bool percent = text.ends_with('%');
  const auto number = number_in(percent ? text.substr(0, text.size() - 1) : text);
  if (!number && percent) throw refused();
  if (!number) {
    const Bytes margin = parse_bytes(text, where);
    if (margin >= device_memory) throw refused();
    return margin;
  }
  constexpr double hundred = 100;
  const double share = percent ? *number / hundred : *number;
  if (share < 0 || share >= 1) throw refused();
  return share_of(device_memory, share);
}

Bytes needed_memory(const Summary& summary) {
  Bytes held = std::max(summary.memory.arena, summary.memory.peak_reserved);
  for (const StepSummary& step : summary.steps) held = std::max(held, step.memory.peak_reserved);
  if (const auto& failed = summary.out_of_memory)
    held = std::max(held, failed->reserved + failed->requested);
  return held + summary.memory.outside;
}

std::optional<Bytes> free_memory(const Summary& summary) {
  if (!summary.device_memory) return std::nullopt;
  return *summary.device_memory - needed_memory(summary);
}

NeededMemory memory_band(const Summary& summary) {
  const Bytes needed = needed_memory(summary);
  if (summary.out_of_memory) return {.low = needed, .high = needed};
  const Bytes below = root_of_squares(summary.allowances, &MemoryAllowance::below);
  const Bytes above = root_of_squares(summary.allowances, &MemoryAllowance::above);
  return {.low = std::max(Bytes{}, needed - below), .high = needed + above};
}

Bytes margin_wanted(const Summary& summary) {
  if (summary.margin) return *summary.margin;
  if (!summary.device_memory) return {};
  return std::max(usual_margin(*summary.device_memory),
                  memory_band(summary).high - needed_memory(summary));
}

bool leaves_margin(const Summary& summary) {
  const auto left = free_memory(summary);
  return summary.fits && (!left || *left >= margin_wanted(summary));
}

MemoryFit memory_fit(const Summary& summary) {
  if (!summary.fits) return MemoryFit::no;
  const bool may_exceed =
      summary.device_memory && memory_band(summary).high > *summary.device_memory;
  return may_exceed || !leaves_margin(summary) ? MemoryFit::tight : MemoryFit::yes;
}

}  // namespace shardscope
