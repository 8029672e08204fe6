#include "gui/export/export_format.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace shardscope::gui {
namespace {

constexpr std::array<std::pair<std::string_view, ExportFormat>, 5> formats{
    {{"png", ExportFormat::png},
     {"svg", ExportFormat::svg},
     {"pdf", ExportFormat::pdf},
     {"csv", ExportFormat::csv},
     {"md", ExportFormat::markdown}}};

}  // namespace

std::string_view name_of(ExportFormat format) {
  return formats[static_cast<std::size_t>(format)].first;
}

std::optional<ExportFormat> export_format(std::string_view name) {
  const auto same = std::find_if(formats.begin(), formats.end(),
                                 [&](const auto& entry) { return entry.first == name; });
  return same == formats.end() ? std::nullopt : std::optional(same->second);
}

std::optional<ExportFormat> format_of(const std::filesystem::path& file) {
  const std::string ending = file.extension();
  return ending.empty() ? std::nullopt : export_format(std::string_view(ending).substr(1));
}

bool is_table(ExportFormat format) {
  return format == ExportFormat::csv || format == ExportFormat::markdown;
}

}  // namespace shardscope::gui
