// NCCL's own performance model: what each algorithm and protocol would take, and which one it
// picks. Source: NCCL 2.28.9 src/graph/tuning.cc, ncclTopoTuneModel and ncclTopoGetAlgoTime.
#pragma once

#include <array>
#include <optional>

#include "core/base/quantities.h"
#include "core/schedule/schedule.h"
#include "sim/collectives/nccl_constants.h"

namespace shardscope {

/// The channels that NCCL found for an algorithm; rates in GB/s, of one channel, one direction.
struct NcclGraph {
  int channels = 0;  ///< 0: the algorithm cannot be
  double within = 0;
  double across = 0;
  bool operator==(const NcclGraph&) const = default;
};

/// What NCCL knows of a communicator when it picks.
struct NcclCommunicator {
  int ranks = 1;
  int nodes = 1;
  int compute_capability = 0;  ///< the least of all ranks
  CpuVendor cpu = CpuVendor::intel;
  NcclHop hop = NcclHop::nvlink;  ///< within a node
  bool nvswitch = false;
  bool ll128 = false;  ///< its paths keep the order of 128 bytes: NVLink, GPUDirect
  bool collnet = false;
  double adapter_latency_us = 0;
  double latency_factor = 1;  ///< on all latencies
  NcclGraph ring;             ///< trees, chains and PAT run over as many channels of the same rate
  NcclGraph nvls;
  bool operator==(const NcclCommunicator&) const = default;
};

/// One way to run a collective: time = latency + bytes / bandwidth.
struct NcclRate {
  double latency_us = 0;
  double bandwidth = 0;  ///< GB/s of the larger side's bytes; 0: NCCL does not use it
};

/// `kind` is an all-gather, reduce-scatter, all-reduce, broadcast or reduce.
///
/// Latency counts every hop of a ring in full. It is so: a rank forwards a block when it has
/// all of it (Simple's chunks are larger than the blocks of large rings), so that the last block
/// comes after ranks - 1 hops, and no hop is hidden behind another one's transfer. What is hidden
/// is hidden behind compute, which the schedule shows.
NcclRate nccl_rate(const NcclCommunicator& comm, OperationKind kind, NcclAlgorithm algorithm,
                   NcclProtocol protocol);

/// Time in us of `bytes` (out of a gather, into a reduction), with NCCL's corrections by size.
double nccl_time_us(const NcclCommunicator& comm, OperationKind kind, NcclAlgorithm algorithm,
                    NcclProtocol protocol, const NcclRate& rate, Bytes bytes);

/// Channels that run `bytes`, each a thread block on a multiprocessor: two over each that the
/// search found, fewer where that leaves threads with less than their protocol asks for
/// (enqueue.cc, topoGetAlgoInfo).
int nccl_channels(const NcclCommunicator& comm, NcclAlgorithm algorithm, NcclProtocol protocol,
                  Bytes bytes);

struct NcclPick {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  int channels = 0;
  Duration time;
  bool operator==(const NcclPick&) const = default;
};

/// The fastest of those that NCCL may use, the first of equals. In a communicator of one: nothing.
NcclPick nccl_pick(const NcclCommunicator& comm, OperationKind kind, Bytes bytes);

}  // namespace shardscope
