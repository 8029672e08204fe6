// NCCL whose other ranks have joined, and hold what this one holds.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "backend/recorder/device/cuda_abi.h"
#include "backend/recorder/device/device_state.h"
#include "backend/recorder/device/log.h"

namespace shardscope::recorder {
namespace {

constexpr int nccl_version = 23007;
constexpr int no_colour = -1;
/// Results that receivers look at are small: object collectives, shapes.
constexpr std::size_t longest_result = std::size_t{1} << 20;

struct Communicator {
  int id = 0, rank = 0, size = 1;
};

/// Of the group that is made next: a split does not say it.
thread_local int next_size = 0;

struct Transfer {
  const void* from;
  void* to;
  std::size_t bytes;
  int peer;
};
thread_local int group_depth = 0;
thread_local std::vector<Transfer> broadcasts;  ///< of the open group
thread_local std::vector<Transfer> sent;        ///< of the open group, or the last

std::size_t size_of(int type) {
  constexpr std::array<std::size_t, 12> bytes{1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && static_cast<std::size_t>(type) < bytes.size()
             ? bytes[static_cast<std::size_t>(type)]
             : 1;
}

Communicator* make(int rank, int size) {
  static std::atomic<int> count = 0;
  auto* made = new Communicator{.id = ++count, .rank = rank, .size = size};
  log_line("communicator\t%d\t%d\t%d", made->id, made->rank, made->size);
  return made;
}

/// `bytes`: the larger of what goes in and what comes out on this rank.
void collective(const char* name, Communicator* in, std::size_t count, int type, std::size_t bytes,
                void* stream) {
  issue("nccl", stream_of(stream), "%s\t%d\t%zu\t%d\t%zu", name, in->id, count, type, bytes);
}

void give_all(void* to, const void* from, std::size_t bytes, int ranks) {
  if (bytes * static_cast<std::size_t>(ranks) > longest_result) return;
  for (int rank = 0; rank < ranks; ++rank) {
    char* place = static_cast<char*>(to) + bytes * static_cast<std::size_t>(rank);
    if (place != from) copy(place, from, bytes);
  }
}

/// Broadcasts of one group with a root each are an all-gather of unequal parts.
void finish_broadcasts(int rank) {
  const auto own = std::find_if(broadcasts.begin(), broadcasts.end(),
                                [&](const Transfer& one) { return one.peer == rank; });
  if (own != broadcasts.end())
    for (const Transfer& one : broadcasts)
      if (one.peer != rank && one.bytes == own->bytes) copy(one.to, own->from, one.bytes);
  broadcasts.clear();
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void shardscope_next_group(int size) { next_size = size; }

Status cudaMalloc(void** to, std::size_t bytes);
Status cudaFree(void* address);

Status ncclGetUniqueId(UniqueId* to) {
  static std::atomic<int> count = 0;
  *to = {};
  std::snprintf(to->bytes, sizeof to->bytes, "shardscope %d", ++count);
  return success;
}
Status ncclCommGetUniqueId(void*, UniqueId* to) { return ncclGetUniqueId(to); }
Status ncclGetVersion(int* to) {
  *to = nccl_version;
  return success;
}
Status ncclCommInitRank(Communicator** to, int size, UniqueId, int rank) {
  *to = make(rank, size);
  next_size = 0;
  return success;
}
Status ncclCommInitRankConfig(Communicator** to, int size, UniqueId, int rank, void*) {
  *to = make(rank, size);
  next_size = 0;
  return success;
}
Status ncclCommInitRankScalable(Communicator** to, int size, int rank, int, UniqueId*, void*) {
  *to = make(rank, size);
  next_size = 0;
  return success;
}
Status ncclCommInitAll(Communicator** to, int count, const int*) {
  for (int rank = 0; rank < count; ++rank) to[rank] = make(rank, count);
  return success;
}
Status ncclCommSplit(Communicator* from, int colour, int key, Communicator** to, void*) {
  *to = colour == no_colour ? nullptr : make(key, next_size > 0 ? next_size : from->size);
  next_size = 0;
  return success;
}
Status ncclCommCount(const Communicator* of, int* to) {
  *to = of->size;
  return success;
}
Status ncclCommUserRank(const Communicator* of, int* to) {
  *to = of->rank;
  return success;
}
Status ncclCommCuDevice(const Communicator*, int* to) {
  *to = current_device();
  return success;
}
Status ncclCommDestroy(Communicator*) { return success; }
Status ncclCommAbort(Communicator*) { return success; }
Status ncclCommFinalize(Communicator*) { return success; }
Status ncclCommGetAsyncError(Communicator*, int* to) {
  *to = success;
  return success;
}
const char* ncclGetErrorString(int) { return "NCCL of a simulated device"; }
const char* ncclGetLastError(Communicator*) { return ""; }
Status ncclMemAlloc(void** to, std::size_t bytes) { return cudaMalloc(to, bytes); }
Status ncclMemFree(void* address) { return cudaFree(address); }
Status ncclCommRegister(Communicator*, void*, std::size_t, void** to) {
  static int one;
  *to = &one;
  return success;
}
Status ncclCommDeregister(Communicator*, void*) { return success; }
Status ncclRedOpCreatePreMulSum(int* to, void*, int, int, Communicator*) {
  *to = 0;
  return success;
}
Status ncclRedOpDestroy(int, Communicator*) { return success; }

Status ncclGroupStart() {
  if (group_depth++ == 0) sent.clear();
  return success;
}
Status ncclGroupEnd() {
  if (group_depth > 0 && --group_depth == 0 && !broadcasts.empty())
    finish_broadcasts(static_cast<int>(setting("SHARDSCOPE_RANK", 0)));
  return success;
}

Status ncclAllReduce(const void* from, void* to, std::size_t count, int type, int, Communicator* in,
                     void* stream) {
  const std::size_t bytes = count * size_of(type);
  collective("all_reduce", in, count, type, bytes, stream);
  if (from != to) copy(to, from, bytes);
  return success;
}
Status ncclReduce(const void* from, void* to, std::size_t count, int type, int, int,
                  Communicator* in, void* stream) {
  const std::size_t bytes = count * size_of(type);
  collective("reduce", in, count, type, bytes, stream);
  if (from != to && to != nullptr) copy(to, from, bytes);
  return success;
}
Status ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root,
                     Communicator* in, void* stream) {
  const std::size_t bytes = count * size_of(type);
  collective("broadcast", in, count, type, bytes, stream);
  if (from != to) copy(to, from, bytes);
  if (group_depth > 0) broadcasts.push_back({from, to, bytes, root});
  return success;
}
Status ncclBcast(void* at, std::size_t count, int type, int root, Communicator* in, void* stream) {
  return ncclBroadcast(at, at, count, type, root, in, stream);
}
Status ncclAllGather(const void* from, void* to, std::size_t count, int type, Communicator* in,
                     void* stream) {
  const std::size_t bytes = count * size_of(type);
  collective("all_gather", in, count, type, bytes * static_cast<std::size_t>(in->size), stream);
  give_all(to, from, bytes, in->size);
  return success;
}
Status ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int,
                         Communicator* in, void* stream) {
  const std::size_t bytes = count * size_of(type);
  collective("reduce_scatter", in, count, type, bytes * static_cast<std::size_t>(in->size), stream);
  const char* own = static_cast<const char*>(from) + bytes * static_cast<std::size_t>(in->rank);
  if (own != to) copy(to, own, bytes);
  return success;
}
Status ncclAlltoAll(const void* from, void* to, std::size_t count, int type, Communicator* in,
                    void* stream) {
  const std::size_t bytes = count * size_of(type) * static_cast<std::size_t>(in->size);
  collective("all_to_all", in, count, type, bytes, stream);
  copy(to, from, bytes);
  return success;
}
Status ncclSend(const void* from, std::size_t count, int type, int peer, Communicator* in,
                void* stream) {
  const std::size_t bytes = count * size_of(type);
  collective("send", in, count, type, bytes, stream);
  sent.push_back({from, nullptr, bytes, peer});
  return success;
}
/// Gives what was sent to that rank.
Status ncclRecv(void* to, std::size_t count, int type, int peer, Communicator* in, void* stream) {
  const std::size_t bytes = count * size_of(type);
  collective("receive", in, count, type, bytes, stream);
  const auto same = std::find_if(sent.rbegin(), sent.rend(), [&](const Transfer& one) {
    return one.peer == peer && one.bytes == bytes;
  });
  if (same != sent.rend()) copy(to, same->from, bytes);
  return success;
}
}
#pragma GCC visibility pop

}  // namespace shardscope::recorder
