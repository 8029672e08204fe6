// A run's figures for people: one run, and the predicted beside the profiled.
#pragma once

#include <optional>
#include <string>

#include "cli/terminal.h"
#include "core/base/side_by_side.h"
#include "traces/summary.h"

namespace shardscope {

/// Step time, time accounting, memory by category, time by unit.
std::string summary_text(const Summary& summary, const Painter& painter);

/// Step time, throughput, whether it fits, host memory.
std::string verdict_text(const Summary& summary, const Painter& painter);

/// The request that fails where the run runs out of memory, or what does not fit beside what is
/// outside; "" where everything fits.
std::string out_of_memory_text(const Summary& summary, const Painter& painter);

/// Step time, accounting and memory of both with signed errors. A side that is absent is left out.
std::string comparison_text(const std::optional<Predicted<Summary>>& predicted,
                            const std::optional<Profiled<Summary>>& profiled,
                            const Painter& painter);

/// One of the summary's figures of memory; "-" for none where it says nothing of what memory is
/// for, as an imported trace may.
std::string memory_text(const Summary& summary, Bytes bytes);

/// "+3.2%", "-0.4%"; "" for none.
std::string error_text(std::optional<double> share);
/// Good within 5%, a warning within 15%, bad beyond.
Paint error_paint(std::optional<double> share);

/// "34.5%"; "-" where the whole is 0.
std::string share_text(Duration part, Duration whole);

}  // namespace shardscope
