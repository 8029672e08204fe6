// Collectives among processes of one host that map each other's memory. The embedded default: it
// needs nothing installed.
#pragma once

#include <chrono>
#include <memory>

#include "backend/comm/communicator.h"
#include "backend/rendezvous/tcp_store.h"

namespace shardscope {

/// Collective: the group of all `world` ranks, which are processes of this host. The store is used
/// only here.
///
/// Inputs in the arena are read in place by the peers; others pass through 256 KiB pieces of
/// staging memory. A collective returns when no peer reads its input any more. `deadline` is that
/// of meeting; collectives wait until they are aborted.
std::unique_ptr<Communicator> make_shared_memory_communicator(int rank, int world, TcpStore& store,
                                                              std::chrono::milliseconds deadline);

}  // namespace shardscope
