// What the NCCL communicators of one tree share: the device, what was queued on it, and the end.
#pragma once

#include <nccl.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend/comm/collective_call.h"
#include "backend/comm/nccl/pending.h"
#include "backend/comm/queued_collectives.h"
#include "backend/cuda/cuda_streams.h"
#include "backend/device/device.h"
#include "core/base/error.h"

namespace shardscope {

/// NCCL is called by one thread, which also asks for the state of its communicators while they are
/// busy: they do not block, so that a deadline and `abort` from another thread always come through.
class NcclWorld final : public QueuedCollectives {
 public:
  struct Place {
    int rank = 0;
    int world = 1;
    std::chrono::milliseconds deadline{};
  };
  /// `device` must outlive it.
  NcclWorld(const Place& place, Device& device);
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;
  ~NcclWorld() override;

  const Place& place() const { return place_; }
  DeviceMemory& memory() const { return device_.memory(); }
  cudaStream_t stream() const {
    return static_cast<cudaStream_t>(device_.streams().selected_handle());
  }

  /// Calls NCCL and returns when `comm` is no longer busy with it. Throws Error
  /// (ExitCode::rank_lost) after the deadline or an abort, and for what NCCL answers.
  template <class Call>
  void run(ncclComm_t comm, const CollectiveCall& what, Call call) {
    accept(guarded(call), comm, what);
  }
  /// Makes a communicator by make(&communicator), out of `parent` unless that is null, and returns
  /// when it is ready. `abort` and `failure` reach it until it is left.
  template <class Make>
  ncclComm_t make(ncclComm_t parent, const CollectiveCall& what, Make make) {
    ncclResult_t result = guarded([&] { return make(&made_); });
    if (parent) {
      // ncclCommSplit answers success at once (2.28 src/init.cc). Its child is there when the
      // parent is ready again.
      accept(result == ncclSuccess ? ncclInProgress : result, parent, what);
      result = ncclInProgress;
    }
    const ncclComm_t made = made_;
    join(made);
    accept(result, made, what);
    return made;
  }
  /// Waits, within the deadline, for what is queued on `comm`, and destroys it.
  void leave(ncclComm_t comm);
  /// `what` was queued on the selected stream for `ranks`.
  void note_queued(const CollectiveCall& what, const GroupRanks& ranks);
  /// Returns when everything on the selected stream has ended; throws Error
  /// (ExitCode::rank_lost) after an abort.
  void wait_for_device();
  /// The same, and after the deadline.
  void wait_for_stream(const CollectiveCall& what);

  /// Calls NCCL unless an abort has ended everything already.
  template <class Call>
  void run_if_alive(Call call) {
    const std::lock_guard lock(mutex_);
    if (why_aborted_.empty()) call();
  }
  /// Returns when an abort, if there was one, has given back what NCCL held of this process.
  void finish_abort();

  // QueuedCollectives
  std::vector<QueuedCollective> pending() override;
  std::uint64_t queued_count() override;
  std::string failure() override;
  void abort(const std::string& why) override;

 private:
  template <class Call>
  ncclResult_t guarded(Call call) {
    const std::lock_guard lock(mutex_);
    if (!why_aborted_.empty()) throw aborted();
    return call();
  }
  void join(ncclComm_t comm);
  bool has(ncclComm_t comm) const;
  void accept(ncclResult_t result, ncclComm_t comm, const CollectiveCall& what);
  ncclResult_t state_after(ncclComm_t comm, const CollectiveCall& what);
  Error aborted() const;
  Error late(const CollectiveCall& what) const;
  [[noreturn]] void fail(ncclResult_t result, ncclComm_t comm, const CollectiveCall& what);

  Place place_;
  Device& device_;
  int gpu_;
  std::mutex mutex_;  ///< of all that stands below, and of every call of NCCL
  std::vector<ncclComm_t> communicators_;
  NcclPending pending_;
  std::string why_aborted_;
  std::thread aborting_;
  ncclComm_t made_ = nullptr;  ///< NCCL's thread may write it when nobody waits any more
  cuda::EventHandle waited_for_ = cuda::make_event();
};

}  // namespace shardscope
