// Reports of imported traces for people: text and a page.
#pragma once

#include <string>

#include "cli/terminal.h"
#include "traces/import/trace_report.h"

namespace shardscope {

/// Time by rank with its identity, process groups, collectives by kind, how the files were read.
std::string report_text(const TraceReport& report, const Painter& painter);

/// The same and `figure` (SVG, may be empty) as one HTML page that needs nothing else.
std::string report_page(const TraceReport& report, const std::string& title,
                        const std::string& figure);

}  // namespace shardscope
