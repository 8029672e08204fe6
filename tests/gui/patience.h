// How long the tests of the window wait for what must come.
#pragma once

#include "tests/sanitizers/sanitized.h"

namespace shardscope::gui {

/// A program built with the thread sanitizer simulates 5 to 20 times more slowly.
constexpr int patience_ms = test::is_sanitized ? 600'000 : 60'000;

}  // namespace shardscope::gui
