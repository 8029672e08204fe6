// What the real tools would ignore, override, refuse or do differently from what an accelerate file
// seems to say.
#pragma once

#include <string_view>
#include <vector>

#include "core/config/accelerate/resolve.h"
#include "core/config/values/finding.h"

namespace shardscope::accelerate {

/// Findings in the order of the file's lines. `text` is the file's: how a number was written is
/// seen only there. With `model`, rules that need one apply too.
std::vector<Finding> lint(const Resolution& resolution, std::string_view text,
                          const PreparedModel* model = nullptr);

}  // namespace shardscope::accelerate
