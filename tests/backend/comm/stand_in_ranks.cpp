#include "tests/backend/comm/stand_in_ranks.h"

#include <cstdlib>
#include <stdexcept>

#include "backend/cuda/cuda_device.h"
#include "backend/job/make_communicator.h"
#include "tests/backend/cuda/stand_in_device.h"
#include "tests/backend/cuda/stand_in_teacher.h"

namespace shardscope::test {
namespace {

class BlockingCommunicator final : public Communicator {
 public:
  BlockingCommunicator(Communicator& inner, DeviceMemory& memory)
      : inner_(inner), memory_(memory) {}
  BlockingCommunicator(std::unique_ptr<Communicator> inner, DeviceMemory& memory)
      : owned_(std::move(inner)), inner_(*owned_), memory_(memory) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string description() const override { return inner_.description(); }
  std::unique_ptr<Arena> allocate_arena(Bytes size) override { return inner_.allocate_arena(size); }
  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override {
    inner_.all_gather(in, out);
    memory_.wait();
  }
  void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out,
                      Dtype dtype) override {
    inner_.reduce_scatter(in, out, dtype);
    memory_.wait();
  }
  void all_reduce(std::span<std::byte> data, Dtype dtype) override {
    inner_.all_reduce(data, dtype);
    memory_.wait();
  }
  void broadcast(std::span<std::byte> data, int root) override {
    inner_.broadcast(data, root);
    memory_.wait();
  }
  void send(std::span<const std::byte> data, int to) override {
    inner_.send(data, to);
    memory_.wait();
  }
  void receive(std::span<std::byte> data, int from) override {
    inner_.receive(data, from);
    memory_.wait();
  }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> split(int color) override {
    return std::make_unique<BlockingCommunicator>(inner_.split(color), memory_);
  }

 private:
  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  DeviceMemory& memory_;
};

}  // namespace

void join_stand_in_ranks(const Environment& place, const StandInJob& job,
                         const std::function<void(const StandInRank&)>& body) {
  if (!job.fault.empty()) ::setenv("SHARDSCOPE_STAND_IN_NCCL", job.fault.c_str(), 1);
  teach_step_state();
  const std::unique_ptr<Device> device =
      make_cuda_device({.use_cublaslt = false, .attention = CudaAttention::own});
  const std::unique_ptr<Communicator> world =
      make_communicator(job.choice, place, job.deadline, device.get());
  body({place, *device, *world});
  for (const std::string& violation : StandInDevice::get().violations())
    throw std::runtime_error(violation);
}

std::vector<testing::RankOutcome> run_stand_in_ranks(
    const StandInJob& job, const std::function<void(const StandInRank&)>& body) {
  return testing::run_ranks(
      job.ranks, [&](const Environment& place) { join_stand_in_ranks(place, job, body); });
}

std::unique_ptr<Communicator> make_blocking(Communicator& inner, DeviceMemory& memory) {
  return std::make_unique<BlockingCommunicator>(inner, memory);
}

}  // namespace shardscope::test
