// What a rank was doing, for errors.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/quantities.h"

namespace shardscope {

enum class CollectiveKind : std::uint32_t {
  all_gather = 1,
  reduce_scatter,
  all_reduce,
  broadcast,
  send,
  receive,
  barrier,
  split,
  allocate_arena,
  join
};
const char* name_of(CollectiveKind kind);

/// A collective and the bytes of its larger side.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::barrier;
  Bytes bytes;
};
/// "all_gather of 4096 B"
std::string text_of(const CollectiveCall& call);

}  // namespace shardscope
