// What CUPTI is asked to record. Included only where its headers were found.
#pragma once

#include <string>
#include <vector>

#include "backend/profile/cupti_library.h"
#include "backend/profile/cupti_recorder.h"

namespace shardscope {

/// Turns everything of a level on. Throws Error where kernels cannot be recorded; what else cannot
/// be is said in the lines that come back.
std::vector<std::string> enable_kinds(const Cupti& library, ProfileRecords level);

/// Turns everything off that enable_kinds() may have turned on.
void disable_kinds(const Cupti& library);

}  // namespace shardscope
