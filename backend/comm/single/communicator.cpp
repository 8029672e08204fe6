#include "backend/comm/single/communicator.h"

#include "backend/comm/collective_checks.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

class SingleCommunicator final : public Communicator {
 public:
  explicit SingleCommunicator(DeviceMemory& memory) : memory_(memory) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string description() const override { return "one rank"; }

  std::unique_ptr<Arena> allocate_arena(Bytes size) override {
    check_arena(size, 1, 1);
    if (has_arena_) {
      throw Error({.where = "allocate_arena",
                   .what = "this job has its arena already",
                   .way_out = "allocate one arena for everything"});
    }
    has_arena_ = true;
    return memory_.allocate(size);
  }

  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override {
    check_all_gather(in.size(), out.size(), 1);
    memory_.copy(out.data(), in);
  }
  void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out,
                      Dtype dtype) override {
    check_reduce_scatter(in.size(), out.size(), 1, dtype);
    memory_.copy(out.data(), in);
  }
  void all_reduce(std::span<std::byte> data, Dtype dtype) override {
    check_all_reduce(data.size(), dtype);
  }
  void broadcast(std::span<std::byte>, int root) override { check_rank("broadcast", root, 1); }
  void send(std::span<const std::byte>, int to) override { check_other_rank("send", to, 0, 1); }
  void receive(std::span<std::byte>, int from) override { check_other_rank("receive", from, 0, 1); }
  void barrier() override {}

  std::unique_ptr<Communicator> split(int color) override {
    check_color(color);
    return make_single_communicator(memory_);
  }

 private:
  DeviceMemory& memory_;
  bool has_arena_ = false;
};

}  // namespace

std::unique_ptr<Communicator> make_single_communicator(DeviceMemory& memory) {
  return std::make_unique<SingleCommunicator>(memory);
}

}  // namespace shardscope
