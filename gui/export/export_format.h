// What a view can be written as.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace shardscope::gui {

enum class ExportFormat : std::uint8_t { png, svg, pdf, csv, markdown };

/// "png", "svg", "pdf", "csv", "md": the ending of its files, too.
std::string_view name_of(ExportFormat format);
std::optional<ExportFormat> export_format(std::string_view name);
/// By the ending of a file's name.
std::optional<ExportFormat> format_of(const std::filesystem::path& file);
/// Rows of a table, and no picture.
bool is_table(ExportFormat format);

/// How large a picture is.
struct PictureSize {
  int width = 1600, height = 900;  ///< logical pixels
  double scale = 2;                ///< pixels of a PNG per logical pixel
};

}  // namespace shardscope::gui
