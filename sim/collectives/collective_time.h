// Closed forms for collectives over a ring: latency per hop plus bytes over bandwidth.
#pragma once

#include "core/base/quantities.h"
#include "core/schedule/schedule.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

/// A ring of `ranks` ranks that visits every node once: ranks - nodes hops inside nodes, the others
/// between them. With one node, `across` is not used.
struct Ring {
  int ranks = 1;
  int nodes = 1;
  Link within;
  Link across;
};

/// Time of a ring all-gather of `total` bytes:  hops + (n-1)/n * total / bandwidth,
/// hops = (n-1) inside one node, else (n-1) - (N-1) inside and N-1 between the N nodes; the slower
/// link's bandwidth. Source: NCCL 2.28 src/graph/tuning.cc, ring, Simple, without the base latency.
/// Example: 8 ranks, 64 MB, 360 GB/s, 3.4 us a hop: 23.8 us + 155.6 us = 179.4 us.
Duration ring_all_gather_time(Bytes total, const Ring& ring);
/// As many steps the other way round, so the same time; `total` is one rank's input.
Duration ring_reduce_scatter_time(Bytes total, const Ring& ring);
/// A reduce-scatter and an all-gather: twice the time.
Duration ring_all_reduce_time(Bytes total, const Ring& ring);
/// The root's bytes flow once through the ring in small pieces: n-1 hops + total / bandwidth.
Duration ring_broadcast_time(Bytes total, const Ring& ring);
/// One message over the slower link of the ring.
Duration point_to_point_time(Bytes total, const Ring& ring);

/// The form above for `kind`; zero in a group of one. A barrier is an all-reduce of no bytes;
/// reduce and scatter cost as a broadcast, an all-to-all as an all-gather of as many bytes.
Duration ring_time(OperationKind kind, Bytes total, const Ring& ring);

}  // namespace shardscope
