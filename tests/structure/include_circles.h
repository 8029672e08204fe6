// Circles in the include graph.
#pragma once

#include <string>
#include <vector>

#include "tests/structure/source_tree.h"

namespace shardscope::structure {

/// "a.h -> b.h -> a.h" for headers that include each other in a circle; each circle is found once,
/// from its first file.
std::vector<std::string> header_circles(const std::vector<SourceFile>& files);

/// The same among folders ("core/base -> core/format -> core/base"), by what any of their files
/// includes. `tests` is above all others and left out.
std::vector<std::string> folder_circles(const std::vector<SourceFile>& files);

}  // namespace shardscope::structure
