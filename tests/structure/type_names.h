// One name for one type: the linker takes two types of one name for the same and keeps one's
// functions.
#pragma once

#include <string>
#include <vector>

#include "tests/structure/source_tree.h"

namespace shardscope::structure {

/// "a.h, b.h: both define shardscope::X" for types of one qualified name in several files, which
/// all end up in one program; by name. Seen are types at the left margin, where clang-format puts
/// those of a namespace. The rooms' tests are programs of their own and left out, as are the second
/// source files of absent libraries.
std::vector<std::string> repeated_types(const std::vector<SourceFile>& files);

}  // namespace shardscope::structure
