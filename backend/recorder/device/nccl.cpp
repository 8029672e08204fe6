// NCCL whose other ranks have joined, and hold what this one holds.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/recorder/device/cuda_abi.h"
#include "backend/recorder/device/device_state.h"
#include "backend/recorder/device/log.h"
#include "backend/recorder/device/mailbox.h"
#include "backend/recorder/device/reference_cases.h"
#include "backend/recorder/device/virtual_time.h"

namespace shardscope::recorder {
namespace {

constexpr int nccl_version = 23007;
constexpr int no_colour = -1;
/// Results that receivers look at are small: object collectives, shapes.
constexpr std::size_t longest_result = std::size_t{1} << 20;
/// Of an all-gather between ranks that are recorded beside each other.
constexpr std::size_t longest_part = std::size_t{1} << 16;

struct Communicator {
  int number = 0, rank = 0, size = 1;
  std::vector<int> members;  ///< their numbers in the job, by rank; empty: not known
  std::string id;            ///< what they met under
};

/// Members of the group that is made next: a split does not say them.
thread_local std::vector<int> next_members;

struct Transfer {
  const void* from;
  void* to;
  std::size_t bytes;
  int peer;
  bool is_own = false;  ///< this rank is the root
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

/// `size` 0: as many as are known to be members, else as `other` has.
Communicator* make(int rank, int size, const char* id, int other = 1) {
  static std::atomic<int> count = 0;
  std::vector<int> members = std::exchange(next_members, {});
  if (size == 0) size = members.empty() ? other : static_cast<int>(members.size());
  if (members.size() != static_cast<std::size_t>(size)) members.clear();
  auto* made = new Communicator{
      .number = ++count, .rank = rank, .size = size, .members = std::move(members), .id = id};
  log_line("communicator\t%d\t%d\t%d", made->number, made->rank, made->size);
  return made;
}

/// "0,8,16", or "3" of as many that are not known.
std::string members_text(const Communicator* in) {
  if (in->members.empty()) return std::to_string(in->size);
  std::string text;
  for (const int member : in->members) text += std::to_string(member) + ",";
  return text;
}

constexpr int no_peer = -1;

/// `bytes`: the larger of what goes in and what comes out on this rank. `peer`: of a transfer.
void collective(const char* name, Communicator* in, std::size_t count, int type, std::size_t bytes,
                void* stream, int peer = no_peer) {
  tell_call(name, count);
  const std::string other = peer == no_peer ? "" : "\t" + std::to_string(peer);
  issue("nccl", stream_of(stream), "%s\t%d\t%zu\t%d\t%zu%s", name, in->number, count, type, bytes,
        other.c_str());
  spend(stream_of(stream), "collective\t" + std::string(name) + "\t" + std::to_string(count) +
                               "\t" + std::to_string(type) + "\t" + members_text(in));
}

void give_all(void* to, const void* from, std::size_t bytes, int ranks) {
  if (bytes * static_cast<std::size_t>(ranks) > longest_result) return;
  for (int rank = 0; rank < ranks; ++rank) {
    char* place = static_cast<char*>(to) + bytes * static_cast<std::size_t>(rank);
    if (place != from) copy(place, from, bytes);
  }
}

/// From a member of the communicator to another. Members that are not known by their numbers in
/// the job met through a store that they share, under one id.
Way way_of(const Communicator* in, int from, int to) {
  if (in->members.empty()) return {.group = in->id, .from = from, .to = to};
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a, of all members
  for (const int member : in->members)
    hash = (hash ^ static_cast<std::uint64_t>(member)) * 1099511628211ULL;
  const auto member = [&](int rank) { return in->members[static_cast<std::size_t>(rank)]; };
  return {.group = std::to_string(in->size) + "-" + std::to_string(hash),
          .from = member(from),
          .to = member(to),
          .sender = member(from)};
}

bool lives(const Communicator* in, int rank) {
  if (rank == in->rank) return false;
  return in->members.empty() ? is_everybody_beside()
                             : is_beside(in->members[static_cast<std::size_t>(rank)]);
}

void post_to_all(const Communicator* in, const void* content, std::size_t bytes) {
  for (int rank = 0; rank < in->size; ++rank)
    if (lives(in, rank)) post(way_of(in, in->rank, rank), content, bytes);
}

/// Broadcasts of one group with a root each are an all-gather of unequal parts.
void finish_broadcasts() {
  const auto own = std::find_if(broadcasts.begin(), broadcasts.end(),
                                [](const Transfer& one) { return one.is_own; });
  if (own != broadcasts.end())
    for (const Transfer& one : broadcasts)
      if (!one.is_own && one.bytes == own->bytes) copy(one.to, own->from, one.bytes);
  broadcasts.clear();
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void shardscope_next_group(int size, const int* ranks) { next_members.assign(ranks, ranks + size); }
/// The observer asks before it computes with what came from other ranks.
void shardscope_take_received() { take_all(); }

Status cudaMalloc(void** to, std::size_t bytes);
Status cudaFree(void* address);

Status ncclGetUniqueId(UniqueId* to) {
  static std::atomic<int> count = 0;
  *to = {};
  std::snprintf(to->bytes, sizeof to->bytes, "shardscope-%ld-%d", setting("RANK", 0), ++count);
  return success;
}
Status ncclCommGetUniqueId(void*, UniqueId* to) { return ncclGetUniqueId(to); }
Status ncclGetVersion(int* to) {
  *to = nccl_version;
  return success;
}
Status ncclCommInitRank(Communicator** to, int size, UniqueId id, int rank) {
  *to = make(rank, size, id.bytes);
  return success;
}
Status ncclCommInitRankConfig(Communicator** to, int size, UniqueId id, int rank, void*) {
  *to = make(rank, size, id.bytes);
  return success;
}
Status ncclCommInitRankScalable(Communicator** to, int size, int rank, int, UniqueId* id, void*) {
  *to = make(rank, size, id->bytes);
  return success;
}
Status ncclCommInitAll(Communicator** to, int count, const int*) {
  for (int rank = 0; rank < count; ++rank) to[rank] = make(rank, count, "one process");
  return success;
}
Status ncclCommSplit(Communicator* from, int colour, int key, Communicator** to, void*) {
  *to = colour == no_colour ? nullptr : make(key, 0, from->id.c_str(), from->size);
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
  if (group_depth > 0 && --group_depth == 0 && !broadcasts.empty()) finish_broadcasts();
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
  if (root == in->rank)
    post_to_all(in, from, bytes);
  else if (lives(in, root))
    take_later(way_of(in, root, in->rank), to, bytes);
  if (from != to) copy(to, from, bytes);
  if (group_depth > 0) broadcasts.push_back({from, to, bytes, root, root == in->rank});
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
  if (bytes > longest_part) return success;
  post_to_all(in, from, bytes);
  for (int rank = 0; rank < in->size; ++rank)
    if (lives(in, rank))
      take_later(way_of(in, rank, in->rank),
                 static_cast<char*>(to) + bytes * static_cast<std::size_t>(rank), bytes);
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
  collective("send", in, count, type, bytes, stream, peer);
  if (lives(in, peer))
    post(way_of(in, in->rank, peer), from, bytes);
  else
    sent.push_back({from, nullptr, bytes, peer});
  return success;
}
/// From a rank that is not there it gives what was sent to that rank.
Status ncclRecv(void* to, std::size_t count, int type, int peer, Communicator* in, void* stream) {
  const std::size_t bytes = count * size_of(type);
  collective("receive", in, count, type, bytes, stream, peer);
  if (lives(in, peer)) {
    take_later(way_of(in, peer, in->rank), to, bytes);
    return success;
  }
  const auto same = std::find_if(sent.rbegin(), sent.rend(), [&](const Transfer& one) {
    return one.peer == peer && one.bytes == bytes;
  });
  if (same != sent.rend()) copy(to, same->from, bytes);
  return success;
}
}
#pragma GCC visibility pop

}  // namespace shardscope::recorder
