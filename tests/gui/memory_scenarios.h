// A small step with every buffer known, for tests of the memory view.
#pragma once

#include <string>

#include "gui/data/scenario.h"

namespace shardscope::testing {

/// "weights" (1000 B of parameters) rest; operation 0 gathers 2000 B of parameters, which 1, the
/// forward of layers.0, frees; 1 makes 3000 B of activations, which 2, its backward, frees along
/// with 1500 B of gradients. Operations begin at 10, 20 and 30 us, the step ends at 40 us;
/// profiled twice as slowly and, from operation 1 on, `more` bytes of activations more.
gui::ScenarioPointer memory_scenario(const std::string& label, std::int64_t more = 0);

}  // namespace shardscope::testing
