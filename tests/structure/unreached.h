// Headers that no program includes.
#pragma once

#include <string>
#include <vector>

#include "tests/structure/source_tree.h"

namespace shardscope::structure {

/// Headers of the rooms (without tests) that no file of a program includes, directly or not. A
/// program's files are every source without a header of its own (a main, a verb, a model family),
/// what they include, and the sources of these headers.
std::vector<std::string> unreached_headers(const std::vector<SourceFile>& files);

}  // namespace shardscope::structure
