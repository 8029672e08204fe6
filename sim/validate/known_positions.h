// max_position_embeddings of models that tables call by name.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardscope {

/// Of the config.json of a repository on the Hub, by a name without blanks, - and _, in small
/// letters. 32,768 where it is not known.
std::int64_t known_positions(std::string_view name);

}  // namespace shardscope
