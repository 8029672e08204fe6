#include "gui/data/machine_words.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace shardscope::gui {
namespace {

/// In the order of `machine_figures`.
constexpr std::array<std::string_view, machine_figures.size()> words{
    "FLOP rate", "memory rate", "memory size", "link rate", "network rate", "latency", "host time"};

}  // namespace

std::string_view machine_words(std::string_view figure) {
  for (std::size_t i = 0; i < machine_figures.size(); ++i)
    if (machine_figures[i].name == figure) return words[i];
  return figure;
}

std::string scales_text(const MachineScales& scales) {
  std::string text;
  for (const MachineFigure& figure : machine_figures)
    if (const double factor = scales.*figure.factor; factor != 1)
      text +=
          fmt::format("{}{} x {:g}", text.empty() ? "" : ", ", machine_words(figure.name), factor);
  return text;
}

}  // namespace shardscope::gui
