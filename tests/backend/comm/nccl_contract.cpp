#include "tests/backend/comm/nccl_contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "backend/comm/nccl/communicator.h"
#include "backend/comm/nccl/settings.h"
#include "backend/cuda/cuda_device.h"
#include "backend/job/join_job.h"
#include "tests/backend/comm/communicator_contract.h"
#include "tests/backend/comm/host_view_communicator.h"

namespace shardscope::testing {
namespace {

constexpr std::chrono::seconds longest_wait{30};

void share(TcpStore& store, int rank, const std::string& key, std::span<std::byte> bytes) {
  char* const begin = reinterpret_cast<char*>(bytes.data());
  if (rank == 0) return store.set(key, {begin, bytes.size()});
  std::ranges::copy(store.get(key), begin);
}

void require(const ContractCheck& check, const Environment& place, Device& device,
             JobSession* session) {
  const auto share_id = [&](std::span<std::byte> bytes) {
    if (session) share(session->meeting.store(), place.rank, check.name, bytes);
  };
  const std::unique_ptr<Communicator> group = make_host_view(
      make_nccl_communicator({place.rank, place.world, longest_wait}, device, share_id),
      device.memory());
  check.run(*group);
}

}  // namespace

void require_nccl_contract(const Environment& place) {
  set_missing(nccl_defaults({.rank = place.rank, .shares_gpu = place.world > 1}));
  const std::unique_ptr<Device> device =
      make_cuda_device({.use_cublaslt = false, .attention = CudaAttention::own});
  const std::shared_ptr<JobSession> session = join_job(place, longest_wait);
  for (const ContractCheck& check : contract_checks()) {
    if (check.of_the_tree) continue;
    try {
      require(check, place, *device, session.get());
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("{}: {}", check.name, error.what()));
    }
    if (place.rank == 0) fmt::print("holds on {}: {}\n", place.world, check.name);
  }
  std::fflush(stdout);
}

}  // namespace shardscope::testing
