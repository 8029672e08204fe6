// The keys that DeepSpeed looks for at the top level of its configuration.
#pragma once

#include <string_view>
#include <vector>

namespace shardscope {

/// Others pass without a word and do nothing. Source: deepspeed 0.19.8 runtime/config.py,
/// runtime/constants.py and the sections' own files.
const std::vector<std::string_view>& known_deepspeed_keys();

}  // namespace shardscope
