#include "backend/comm/collective_call.h"

#include <fmt/format.h>

namespace shardscope {

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::send:
      return "send";
    case CollectiveKind::receive:
      return "receive";
    case CollectiveKind::barrier:
      return "barrier";
    case CollectiveKind::split:
      return "split";
    case CollectiveKind::allocate_arena:
      return "allocate_arena";
    case CollectiveKind::join:
      return "join";
  }
  return "?";
}

std::string text_of(const CollectiveCall& call) {
  return fmt::format("{} of {} B", name_of(call.kind), call.bytes.count);
}

}  // namespace shardscope
