// Which GPU of its host a rank works on, and whether others do, too.
#pragma once

#include <string>
#include <string_view>

#include "backend/rendezvous/environment.h"
#include "backend/rendezvous/tcp_store.h"

namespace shardscope {

/// Of the `gpus` that this process may see: one a rank, in the order of local ranks; round again
/// where there are more ranks.
int gpu_index(const Environment& environment, int gpus);

/// "5d1f... 0000:65:00.0": the host's boot and the GPU's place on its bus, which is all that NCCL
/// 2.28 compares (src/init.cc, "Duplicate GPU detected"); slices of one GPU are one. Empty where it
/// cannot be told.
std::string gpu_identity(int index);

/// Collective among all `world` ranks, once: whether two of them named the same GPU, however many
/// each may see. NCCL's settings must be the same on all ranks, and so is the answer.
bool share_gpus(TcpStore& store, int world, const std::string& identity);

inline constexpr std::string_view shared_gpu_warning =
    "several ranks share a GPU: good for tests of correctness, and the times mean nothing";

}  // namespace shardscope
