// Stands for libnccl.so: its collectives really move bytes among the processes of a test, when
// their turn comes on the streams of the stand-in for a GPU. As NCCL does, it adds around a ring
// and rounds at each step, keeps the order of calls within a communicator whatever their streams,
// has non-blocking communicators answer that they are busy, and does not end a communicator before
// the graphs that hold its collectives are gone. What it is called with is kept by the stand-in for
// the GPU.
//
// SHARDSCOPE_STAND_IN_NCCL makes a rank fail: "hang:RANK:N" never takes part in its N-th collective
// (from 1), "fail:RANK:N" finds an asynchronous error there instead, "no_memory" refuses
// ncclMemAlloc.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/base/bfloat16.h"
#include "tests/backend/comm/stand_in_nccl_profiler.h"
#include "tests/backend/comm/stand_in_nccl_region.h"
#include "tests/backend/cuda/stand_in_device.h"

namespace {

using namespace shardscope;
using namespace shardscope::test;

enum class Kind : int { all_gather = 1, reduce_scatter, all_reduce, broadcast, send, receive };

/// What SHARDSCOPE_STAND_IN_NCCL asks for.
struct Fault {
  std::string what;
  int rank = -1;
  int at = 0;
};
Fault fault() {
  const char* text = std::getenv("SHARDSCOPE_STAND_IN_NCCL");
  Fault fault;
  char what[16] = "";
  if (text && std::sscanf(text, "%15[a-z_]:%d:%d", what, &fault.rank, &fault.at) >= 1)
    fault.what = what;
  return fault;
}

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

std::size_t size_of_type(ncclDataType_t type) {
  switch (type) {
    case ncclInt64:
    case ncclFloat64:
      return 8;
    case ncclFloat32:
      return 4;
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

template <class T>
T plus(T a, T b) {
  return a + b;
}
Bfloat16 plus(Bfloat16 a, Bfloat16 b) { return to_bfloat16(to_float(a) + to_float(b)); }

/// out[i] = the sum over ranks, one after the other around a ring that starts behind `owner`.
template <class T>
void sum_around(StandInRegion& region, int ranks, int owner, std::size_t first, std::byte* out,
                std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T sum{};
    for (int step = 1; step <= ranks; ++step) {
      T term;
      std::memcpy(&term, region.bytes_of((owner + step) % ranks) + (first + i) * sizeof(T),
                  sizeof(T));
      sum = step == 1 ? term : plus(sum, term);
    }
    std::memcpy(out + i * sizeof(T), &sum, sizeof(T));
  }
}

}  // namespace

/// A communicator in one process. Work on a stream keeps it alive.
struct ncclComm : std::enable_shared_from_this<ncclComm> {
  ncclComm(std::string called, std::vector<int> all, int mine)
      : name(std::move(called)), members(std::move(all)), rank(mine), region(name) {
    if (region.shared().joined.fetch_add(1) + 1 == size()) region.unlink();
  }

  int size() const { return static_cast<int>(members.size()); }
  int world_rank() const { return members[index(rank)]; }

  const std::string name;
  const std::vector<int> members;  ///< as numbered in the first communicator
  const int rank;
  StandInRegion region;
  StandInProfiler profiler{size(), rank};
  std::uint64_t ended = 0;  ///< collectives, sends and receives left out
  int splits = 0;
  std::optional<ncclComm_t*> split_to;
  bool is_finalized = false;
  std::vector<std::weak_ptr<int>> captured;  ///< of each captured call: gone with the last graph
  /// Of all that were split off one (2.28 src/init.cc, ncclCommInitChildComm, with splitShare).
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
  std::atomic<ncclResult_t> failure{ncclSuccess};
  std::string words;
};

namespace {

struct Library {
  std::mutex mutex;
  std::map<ncclComm_t, std::shared_ptr<ncclComm>> communicators;
  int ids = 0;
  int collectives = 0;  ///< that this process has begun
};
Library& library() {
  static Library instance;
  return instance;
}

/// As ncclCommFinalize and ncclCommAbort ask (2.28 src/init.cc, commDestroySync).
bool is_in_graphs(const ncclComm& comm) {
  const std::lock_guard lock(library().mutex);
  return !std::ranges::all_of(comm.captured, &std::weak_ptr<int>::expired);
}

ncclComm_t keep(std::shared_ptr<ncclComm> communicator) {
  const std::lock_guard lock(library().mutex);
  ncclComm_t handle = communicator.get();
  library().communicators[handle] = std::move(communicator);
  return handle;
}

/// One call on its way through a stream.
class Work {
 public:
  Work(const char* name, ncclComm& comm, StandInCall call, const void* in, void* out)
      : name_(name),
        comm_(comm.shared_from_this()),
        profiled_(comm.profiler.call(name)),
        call_(call),
        in_(static_cast<const std::byte*>(in)),
        out_(static_cast<std::byte*>(out)) {
    if (!StandInDevice::get().is_capturing()) {
      launch();
      return;
    }
    const std::lock_guard lock(library().mutex);
    captured_ = std::make_shared<int>();
    comm.captured.push_back(captured_);
  }

  /// Whether it has ended; called again until then.
  bool operator()() {
    if (*comm_->aborted) return true;
    if (kind() == Kind::send) return send();
    if (kind() == Kind::receive) return receive();
    if (!begun_) begin();
    if (hangs_ || comm_->failure != ncclSuccess) return false;
    return give() && take();
  }

 private:
  Kind kind() const { return static_cast<Kind>(call_.kind); }
  void launch() { comm_->profiler.launch(profiled_, name_, call_.bytes); }
  StandInTurn& turn(int rank) { return comm_->region.shared().turns[index(rank)]; }
  std::uint64_t number() const { return comm_->ended + 1; }

  void begin() {
    begun_ = true;
    if (captured_) launch();
    const Fault wanted = fault();
    if (++library().collectives != wanted.at || comm_->world_rank() != wanted.rank) return;
    hangs_ = wanted.what == "hang";
    if (wanted.what == "fail") fail(ncclRemoteError, "the stand-in was told to fail");
  }

  void fail(ncclResult_t result, std::string words) {
    comm_->words = std::move(words);
    comm_->failure = result;
  }

  /// Bytes that this rank puts in.
  std::size_t bytes_in() const {
    const bool gives = kind() != Kind::broadcast || comm_->rank == call_.root;
    return gives ? call_.bytes : 0;
  }

  /// When everybody has read what it gave before.
  bool give() {
    if (given_) return true;
    for (int rank = 0; rank < comm_->size(); ++rank)
      if (turn(rank).taken.load() + 1 < number()) return false;
    std::memcpy(comm_->region.bytes_of(comm_->rank), in_, bytes_in());
    turn(comm_->rank).call = call_;
    turn(comm_->rank).given = number();
    return given_ = true;
  }

  bool take() {
    for (int rank = 0; rank < comm_->size(); ++rank)
      if (turn(rank).given.load() < number()) return false;
    for (int rank = 0; rank < comm_->size(); ++rank) {
      if (turn(rank).call == call_) continue;
      fail(ncclInvalidUsage, fmt::format("ranks {} and {} call different collectives",
                                         comm_->world_rank(), comm_->members[index(rank)]));
      return false;
    }
    read();
    turn(comm_->rank).taken = number();
    ++comm_->ended;
    return true;
  }

  void read() {
    const std::size_t part = call_.bytes / index(comm_->size());
    switch (kind()) {
      case Kind::all_gather:
        for (int rank = 0; rank < comm_->size(); ++rank)
          std::memcpy(out_ + index(rank) * call_.bytes, comm_->region.bytes_of(rank), call_.bytes);
        break;
      case Kind::reduce_scatter:
        sum(comm_->rank, index(comm_->rank) * part, part, out_);
        break;
      case Kind::all_reduce:
        reduce_all();
        break;
      default:
        std::memcpy(out_, comm_->region.bytes_of(call_.root), call_.bytes);
    }
  }

  /// Each rank's part starts its ring elsewhere; the last part has what does not divide.
  void reduce_all() {
    const std::size_t element = size_of_type(static_cast<ncclDataType_t>(call_.type));
    const std::size_t part = call_.bytes / element / index(comm_->size()) * element;
    for (int owner = 0; owner < comm_->size(); ++owner) {
      const std::size_t begin = index(owner) * part;
      const bool last = owner + 1 == comm_->size();
      sum(owner, begin, last ? call_.bytes - begin : part, out_ + begin);
    }
  }

  void sum(int owner, std::size_t begin, std::size_t bytes, std::byte* out) {
    const auto type = static_cast<ncclDataType_t>(call_.type);
    const std::size_t element = size_of_type(type);
    const auto add = [&]<class T>(T) {
      sum_around<T>(comm_->region, comm_->size(), owner, begin / element, out, bytes / element);
    };
    if (type == ncclFloat32) add(float{});
    if (type == ncclFloat64) add(double{});
    if (type == ncclInt64) add(std::int64_t{});
    if (type == ncclBfloat16) add(Bfloat16{});
  }

  bool send() {
    StandInTurn& turn = comm_->region.shared().messages[index(comm_->rank)][index(call_.root)];
    if (turn.taken.load() < turn.given.load()) return false;
    std::memcpy(comm_->region.message(comm_->rank, call_.root), in_, call_.bytes);
    turn.call.bytes = call_.bytes;
    ++turn.given;
    return true;
  }
  bool receive() {
    StandInTurn& turn = comm_->region.shared().messages[index(call_.root)][index(comm_->rank)];
    if (turn.taken.load() == turn.given.load()) return false;
    if (turn.call.bytes != call_.bytes)
      fail(ncclInvalidUsage,
           fmt::format("{} B are received and {} B were sent", call_.bytes, turn.call.bytes));
    std::memcpy(out_, comm_->region.message(call_.root, comm_->rank), call_.bytes);
    ++turn.taken;
    return true;
  }

  const char* name_;
  std::shared_ptr<ncclComm> comm_;
  void* profiled_;
  StandInCall call_;
  const std::byte* in_;
  std::byte* out_;
  std::shared_ptr<int> captured_;
  bool begun_ = false, given_ = false, hangs_ = false;
};

int stream_number(cudaStream_t stream) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(stream)) - 1;
}

/// `bytes` are those that this rank puts in; of a broadcast and a receive, those that come out.
ncclResult_t queue(const char* name, ncclComm_t comm, StandInCall call, const void* in, void* out,
                   cudaStream_t stream) {
  if (*comm->aborted || call.bytes > stand_in_bytes) return ncclInvalidArgument;
  const int number = stream_number(stream);
  StandInDevice::get().note(
      name, number, fmt::format("{} B, ranks {}", call.bytes, fmt::join(comm->members, " ")));
  StandInDevice::get().queue_in_chain(comm, number, Work(name, *comm, call, in, out));
  return ncclInProgress;
}

StandInCall call_of(Kind kind, std::size_t count, ncclDataType_t type, int root = 0) {
  return {static_cast<int>(kind), type, root, count * size_of_type(type)};
}

/// Ends a split when all ranks have said their colors.
ncclResult_t go_on_with_split(ncclComm& comm) {
  auto& colors = comm.region.shared().colors[index(comm.splits)];
  std::vector<int> members;
  int rank = 0;
  for (int peer = 0; peer < comm.size(); ++peer) {
    if (colors[index(peer)] == 0) return ncclInProgress;
    if (colors[index(peer)] != colors[index(comm.rank)]) continue;
    if (peer == comm.rank) rank = static_cast<int>(members.size());
    members.push_back(comm.members[index(peer)]);
  }
  const std::string name = fmt::format("{}-{}-{}", comm.name, comm.splits, members.front());
  ++comm.splits;
  auto part = std::make_shared<ncclComm>(name, std::move(members), rank);
  part->aborted = comm.aborted;
  **comm.split_to = keep(std::move(part));
  comm.split_to.reset();
  return ncclSuccess;
}

ncclResult_t state_of(ncclComm& comm) {
  if (comm.failure != ncclSuccess) return comm.failure;
  if (comm.region.shared().joined.load() < comm.size()) return ncclInProgress;
  if (comm.is_finalized && is_in_graphs(comm)) return ncclInProgress;
  return comm.split_to ? go_on_with_split(comm) : ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "the stand-in refuses";
}
const char* ncclGetLastError(ncclComm_t comm) { return comm ? comm->words.c_str() : ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::string name = fmt::format("/shardscope-stand-in-{}-{}", ::getpid(), library().ids++);
  std::strcpy(id->internal, name.c_str());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (ranks > most_stand_in_ranks || config->blocking != 0) return ncclInvalidArgument;
  std::vector<int> members;
  for (int member = 0; member < ranks; ++member) members.push_back(member);
  *comm = keep(std::make_shared<ncclComm>(id.internal, std::move(members), rank));
  return ncclInProgress;
}

/// The new communicator is there when this one is no longer busy.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int, ncclComm_t* made, ncclConfig_t*) {
  comm->region.shared().colors[index(comm->splits)][index(comm->rank)] = color + 1;
  comm->split_to = made;
  return ncclInProgress;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  comm->is_finalized = true;
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::lock_guard lock(library().mutex);
  return library().communicators.erase(comm) == 1 ? ncclSuccess : ncclInvalidArgument;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  StandInDevice::get().note("ncclCommAbort");
  *comm->aborted = true;
  comm->region.unlink();
  while (is_in_graphs(*comm)) ::usleep(1000);
  return ncclCommDestroy(comm);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = state_of(*comm);
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  if (fault().what == "no_memory") return ncclSystemError;
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void* memory) {
  cudaFree(memory);
  return ncclSuccess;
}
ncclResult_t ncclCommRegister(const ncclComm_t, void* memory, std::size_t bytes, void** handle) {
  StandInDevice::get().note("ncclCommRegister", -1, std::to_string(bytes));
  *handle = memory;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t, void*) { return ncclSuccess; }

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return queue("ncclAllGather", comm, call_of(Kind::all_gather, count, type), in, out, stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return queue("ncclReduceScatter", comm,
               call_of(Kind::reduce_scatter, count * index(comm->size()), type), in, out, stream);
}
ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return queue("ncclAllReduce", comm, call_of(Kind::all_reduce, count, type), in, out, stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return queue("ncclBroadcast", comm, call_of(Kind::broadcast, count, type, root), in, out, stream);
}
ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return queue("ncclSend", comm, call_of(Kind::send, count, type, peer), in, nullptr, stream);
}
ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return queue("ncclRecv", comm, call_of(Kind::receive, count, type, peer), nullptr, out, stream);
}

}  // extern "C"
