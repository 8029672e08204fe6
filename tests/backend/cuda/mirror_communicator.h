// A second rank that is this one's reflection.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "backend/comm/communicator.h"
#include "backend/device/device_memory.h"

namespace shardscope::test {

/// Rank 0 of two, where the other rank has in every gather what this one has, and adds nothing to a
/// sum. All of it copies on the selected stream.
class MirrorCommunicator final : public Communicator {
 public:
  explicit MirrorCommunicator(DeviceMemory& memory) : memory_(memory) {}

  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string description() const override { return "mirror"; }
  std::unique_ptr<Arena> allocate_arena(Bytes size) override { return memory_.allocate(size); }
  void all_gather(std::span<const std::byte> in, std::span<std::byte> out) override {
    memory_.copy(out.data(), in);
    memory_.copy(out.data() + in.size(), in);
  }
  void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out, Dtype) override {
    memory_.copy(out.data(), in.first(out.size()));
  }
  void all_reduce(std::span<std::byte>, Dtype) override {}
  void broadcast(std::span<std::byte>, int) override {}
  void send(std::span<const std::byte>, int) override {}
  void receive(std::span<std::byte>, int) override {}
  void barrier() override {}
  std::unique_ptr<Communicator> split(int) override {
    return std::make_unique<MirrorCommunicator>(memory_);
  }

 private:
  DeviceMemory& memory_;
};

}  // namespace shardscope::test
