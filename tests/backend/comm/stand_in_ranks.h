// Ranks whose GPU and NCCL are stand-ins.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/comm/communicator.h"
#include "backend/device/device.h"
#include "core/native/job.h"
#include "tests/backend/comm/forked_ranks.h"

namespace shardscope::test {

/// What a rank has.
struct StandInRank {
  const Environment& place;
  Device& device;
  Communicator& world;
};

struct StandInJob {
  int ranks = 2;
  std::chrono::milliseconds deadline = std::chrono::seconds(60);
  CommunicatorChoice choice = CommunicatorChoice::nccl;
  std::string fault = {};  ///< SHARDSCOPE_STAND_IN_NCCL of tests/backend/comm/stand_in_nccl.cpp
};

/// Runs `body` in this process with a CUDA device and a NCCL communicator.
void join_stand_in_ranks(const Environment& place, const StandInJob& job,
                         const std::function<void(const StandInRank&)>& body);
/// The same in a forked process for each rank of the job.
std::vector<testing::RankOutcome> run_stand_in_ranks(
    const StandInJob& job, const std::function<void(const StandInRank&)>& body);

/// Makes the calls of `inner`, which must outlive it, block: it waits for the device after each.
std::unique_ptr<Communicator> make_blocking(Communicator& inner, DeviceMemory& memory);

}  // namespace shardscope::test
