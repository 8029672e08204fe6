// Which parameters are trained.
#pragma once

#include <string>
#include <vector>

#include "core/model/model.h"

namespace shardscope {

/// Freezes the parameters whose name no pattern matches anywhere (re.search); no patterns: all are
/// trained. Patterns are ECMAScript regular expressions of at most 256 characters without counted
/// repetitions and back-references, so that matching takes time linear in pattern and name. Throws
/// Error naming the pattern if it is malformed or matches nothing.
void freeze_all_but(Model& model, const std::vector<std::string>& patterns);

}  // namespace shardscope
