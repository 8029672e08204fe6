// The command line of shardscope-gui.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gui/data/appearance_choice.h"
#include "gui/export/export_format.h"

namespace shardscope::gui {

/// --export: pictures instead of a window.
struct ExportRequest {
  std::vector<std::string> views;  ///< ids; empty: all
  std::filesystem::path output;
  ExportFormat format = ExportFormat::png;
  bool into_folder = false;  ///< `output` gets a file for each view
  PictureSize size;
};

struct GuiArguments {
  bool help = false, version = false;
  std::vector<std::filesystem::path> files;
  std::optional<ExportRequest> export_request;
  std::optional<AppearanceChoice> appearance;
  std::optional<std::string> a, b;  ///< labels, or paths, of the scenarios to compare
};

/// `arguments` without the program's name. Throws Error whose `where` is the option.
GuiArguments parse_command_line(const std::vector<std::string>& arguments);

/// What --help prints.
std::string command_line_help();

}  // namespace shardscope::gui
