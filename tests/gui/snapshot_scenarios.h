// A small memory snapshot made by hand, for tests of what shows it.
#pragma once

#include <string>

#include "gui/data/scenario.h"

namespace shardscope::testing {

/// One segment of 4,096 B at 0x1000. Model.py's forward asks for 1,000 B at 0x1000 at 0 us, which
/// stay; for 1,000 B at 0x1400 at 10 us, which are freed at 30 us and waited for until 31 us; and
/// at 40 us for `kept` B at 0x1800, at most 2,048, which stay. Free at the end: 0x1400.
MemorySnapshot small_snapshot(const std::string& file, std::int64_t kept = 2000);

/// It alone, as the profiled side.
gui::ScenarioPointer snapshot_scenario(const std::string& label, std::int64_t kept = 2000);

}  // namespace shardscope::testing
