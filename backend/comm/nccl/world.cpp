#include "backend/comm/nccl/world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "backend/base/time_limit.h"
#include "backend/comm/nccl/library.h"
#include "backend/cuda/check.h"

namespace shardscope {
namespace {

/// Between two questions: shorter than a launch takes, and long enough to leave the processor to
/// NCCL's own threads.
constexpr useconds_t poll_interval_us = 20;

/// NCCL's words for `result`, with what it last noted beside them.
std::string text_of(ncclResult_t result, ncclComm_t comm) {
  const std::string note = nccl().last_error(comm);
  const std::string words = nccl().error_string(result);
  return note.empty() ? words : fmt::format("{}: {}", words, note);
}

/// What another rank or the network did, and not this rank's own calls.
bool is_from_outside(ncclResult_t result) {
  return result == ncclRemoteError || result == ncclSystemError;
}

int current_gpu() {
  int index = 0;
  cuda::check(cudaGetDevice(&index), "cudaGetDevice");
  return index;
}

}  // namespace

NcclWorld::NcclWorld(const Place& place, Device& device)
    : place_(place), device_(device), gpu_(current_gpu()) {}

NcclWorld::~NcclWorld() { finish_abort(); }

void NcclWorld::finish_abort() {
  std::unique_lock lock(mutex_);
  std::thread aborting = std::move(aborting_);
  lock.unlock();
  if (aborting.joinable()) aborting.join();
}

Error NcclWorld::aborted() const {
  return Error({.where = fmt::format("rank {} of {}", place_.rank, place_.world),
                .what = why_aborted_,
                .way_out = {},
                .code = ExitCode::rank_lost});
}

Error NcclWorld::late(const CollectiveCall& what) const {
  return Error(
      {.where = fmt::format("rank {} of {}", place_.rank, place_.world),
       .what = fmt::format("{}: a rank did not come within {} s", shardscope::text_of(what),
                           std::chrono::duration<double>(place_.deadline).count()),
       .way_out = "see the logs of the others",
       .code = ExitCode::rank_lost});
}

void NcclWorld::accept(ncclResult_t result, ncclComm_t comm, const CollectiveCall& what) {
  if (result == ncclInProgress) result = state_after(comm, what);
  if (result != ncclSuccess) fail(result, comm, what);
}

ncclResult_t NcclWorld::state_after(ncclComm_t comm, const CollectiveCall& what) {
  const TimeLimit limit(place_.deadline);
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    if (limit.passed()) {
      const Error error = late(what);
      abort(error.parts().what);
      throw error;
    }
    ::usleep(poll_interval_us);
    const ncclResult_t asked = guarded([&] { return nccl().comm_async_error(comm, &state); });
    if (asked != ncclSuccess) state = asked;
  }
  return state;
}

void NcclWorld::fail(ncclResult_t result, ncclComm_t comm, const CollectiveCall& what) {
  const Error error(
      {.where = fmt::format("rank {} of {}", place_.rank, place_.world),
       .what = fmt::format("{}: NCCL answers {}", shardscope::text_of(what), text_of(result, comm)),
       .way_out = "NCCL_DEBUG=INFO makes it say more",
       .code = is_from_outside(result) ? ExitCode::rank_lost : ExitCode::outside});
  abort(error.parts().what);
  throw error;
}

void NcclWorld::note_queued(const CollectiveCall& what, const GroupRanks& ranks) {
  if (device_.streams().is_capturing()) return;
  {
    const std::lock_guard lock(mutex_);
    pending_.make_room();
  }
  // Not under the lock: behind a collective that hangs, a device whose queue is full makes this
  // wait, and the abort that ends it must come through.
  pending_.mark(stream());
  const std::lock_guard lock(mutex_);
  pending_.add(what, ranks);
}

/// What an abort has ended has not done its work.
void NcclWorld::wait_for_device() {
  memory().wait();
  guarded([] { return ncclSuccess; });
}

void NcclWorld::wait_for_stream(const CollectiveCall& what) {
  cuda::check(cudaEventRecord(waited_for_.get(), stream()), "cudaEventRecord");
  const TimeLimit limit(place_.deadline);
  for (;;) {
    const cudaError_t state = cudaEventQuery(waited_for_.get());
    guarded([] { return ncclSuccess; });
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) cuda::check(state, "cudaEventQuery");
    std::string why = failure();
    if (why.empty() && limit.passed()) why = late(what).parts().what;
    if (!why.empty()) abort(why);
    ::usleep(poll_interval_us);
  }
}

void NcclWorld::join(ncclComm_t comm) {
  const std::lock_guard lock(mutex_);
  if (comm) communicators_.push_back(comm);
}

bool NcclWorld::has(ncclComm_t comm) const {
  return std::ranges::find(communicators_, comm) != communicators_.end();
}

/// A rank on its way out after a failure must not wait for the others.
void NcclWorld::leave(ncclComm_t comm) {
  const TimeLimit limit(place_.deadline);
  std::unique_lock lock(mutex_);
  if (!has(comm)) return;
  ncclResult_t state =
      std::uncaught_exceptions() > 0 ? ncclRemoteError : nccl().comm_finalize(comm);
  while (state == ncclInProgress && !limit.passed()) {
    lock.unlock();
    ::usleep(poll_interval_us);
    lock.lock();
    if (!has(comm)) return;  // aborted meanwhile
    if (nccl().comm_async_error(comm, &state) != ncclSuccess) break;
  }
  std::erase(communicators_, comm);
  lock.unlock();
  if (state == ncclSuccess)
    nccl().comm_destroy(comm);
  else
    nccl().comm_abort(comm);
}

std::vector<QueuedCollective> NcclWorld::pending() {
  cudaSetDevice(gpu_);  // or a thread that has none yet would take memory of the first one
  const std::lock_guard lock(mutex_);
  return pending_.list();
}

std::uint64_t NcclWorld::queued_count() {
  const std::lock_guard lock(mutex_);
  return pending_.count();
}

std::string NcclWorld::failure() {
  const std::lock_guard lock(mutex_);
  if (!why_aborted_.empty()) return why_aborted_;
  for (ncclComm_t comm : communicators_) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = nccl().comm_async_error(comm, &state);
    const ncclResult_t result = asked == ncclSuccess ? state : asked;
    if (result != ncclSuccess && result != ncclInProgress)
      return fmt::format("NCCL answers {}", text_of(result, comm));
  }
  return "";
}

/// ncclCommAbort stops the device's part at once, for all that share a flag (splitShare), and then
/// waits: for its own threads, and until the graphs that hold its collectives are gone (2.28
/// src/init.cc, commDestroySync). Those belong to a thread that may be waiting for this very abort.
void NcclWorld::abort(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!why_aborted_.empty()) return;
  why_aborted_ = why;
  aborting_ = std::thread([all = std::exchange(communicators_, {})] {
    // Those that were split off first: they may share what the others own.
    for (auto comm = all.rbegin(); comm != all.rend(); ++comm) nccl().comm_abort(*comm);
  });
}

}  // namespace shardscope
