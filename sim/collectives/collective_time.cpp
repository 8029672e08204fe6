#include "sim/collectives/collective_time.h"

#include <algorithm>

namespace shardscope {
namespace {

Bandwidth slower_bandwidth(const Ring& ring) {
  return ring.nodes > 1 ? std::min(ring.within.bandwidth, ring.across.bandwidth)
                        : ring.within.bandwidth;
}

Duration hops(const Ring& ring) {
  const int between = ring.nodes - 1;
  return ring.within.latency * (ring.ranks - 1 - between) + ring.across.latency * between;
}

}  // namespace

Duration ring_all_gather_time(Bytes total, const Ring& ring) {
  const double moved = static_cast<double>(total.count) * (ring.ranks - 1) / ring.ranks;
  return hops(ring) + Duration::from_seconds(moved / slower_bandwidth(ring).bytes_per_s);
}

Duration ring_reduce_scatter_time(Bytes total, const Ring& ring) {
  return ring_all_gather_time(total, ring);
}

Duration ring_all_reduce_time(Bytes total, const Ring& ring) {
  return ring_reduce_scatter_time(total, ring) + ring_all_gather_time(total, ring);
}

Duration ring_broadcast_time(Bytes total, const Ring& ring) {
  return hops(ring) + total / slower_bandwidth(ring);
}

Duration point_to_point_time(Bytes total, const Ring& ring) {
  const Link& link = ring.nodes > 1 ? ring.across : ring.within;
  return link.latency + total / link.bandwidth;
}

Duration ring_time(OperationKind kind, Bytes total, const Ring& ring) {
  if (ring.ranks <= 1) return {};
  switch (kind) {
    case OperationKind::all_gather:
    case OperationKind::all_to_all:
      return ring_all_gather_time(total, ring);
    case OperationKind::reduce_scatter:
      return ring_reduce_scatter_time(total, ring);
    case OperationKind::all_reduce:
      return ring_all_reduce_time(total, ring);
    case OperationKind::barrier:
      return ring_all_reduce_time({}, ring);
    case OperationKind::send:
    case OperationKind::receive:
      return point_to_point_time(total, ring);
    default:
      return ring_broadcast_time(total, ring);
  }
}

}  // namespace shardscope
