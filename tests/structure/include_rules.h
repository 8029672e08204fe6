// Who may include what: the layers of docs/architecture.md as tables.
#pragma once

#include <string>
#include <vector>

#include "tests/structure/source_tree.h"

namespace shardscope::structure {

/// A line "file:line: what is wrong" for every #include that breaks a rule:
/// - rooms see only the rooms below them, and sim and backend never each other;
/// - a library's headers stay in the folders that own it, and out of headers where it is a detail
/// of a source file;
/// - quoted includes name a file of this project from its root;
/// - a source file includes its own header first, which shows that the header stands alone;
/// - headers begin with #pragma once; an absent dependency is a second source file, not an #if.
std::vector<std::string> include_breaches(const std::vector<SourceFile>& files);

}  // namespace shardscope::structure
