// Collectives among GPUs, over NCCL.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "backend/comm/communicator.h"
#include "backend/device/device.h"

namespace shardscope {

/// Whether this program was built with NCCL's header; the library itself is loaded when a
/// communicator is made.
bool has_nccl();

/// Gives rank 0's bytes to all ranks, by whatever they can already reach each other with.
using ShareBytes = std::function<void(std::span<std::byte>)>;

struct NcclPlace {
  int rank = 0;
  int world = 1;
  std::chrono::milliseconds deadline{};  ///< longest wait for a peer, here and in calls that block
};

/// Collective: the group of all `world` ranks, each with a GPU (`device`, which must outlive it)
/// that this thread works on. `share` is called once, with NCCL's unique id.
///
/// The arena is ncclMemAlloc's and registered. What lies in it is read and written in place; bytes
/// of the host pass through memory of the device, and block. Communicators do not block NCCL's
/// own calls either, so that every wait for a peer ends by the deadline. The tree shares NCCL's
/// buffers and order (splitShare), so that two communicators never wait for each other crosswise.
std::unique_ptr<Communicator> make_nccl_communicator(const NcclPlace& place, Device& device,
                                                     const ShareBytes& share);

}  // namespace shardscope
