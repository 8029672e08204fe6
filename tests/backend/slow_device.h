// A device with memory and a clock of its own, whose clock is known.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "backend/device/device.h"

namespace shardscope::test {

/// The host's memory, called another's.
class FarMemory final : public DeviceMemory {
 public:
  bool is_host() const override { return false; }
  std::unique_ptr<Arena> allocate(Bytes size) override { return host_memory().allocate(size); }
  void copy_in(std::byte* to, std::span<const std::byte> from) override {
    host_memory().copy_in(to, from);
  }
  void copy_out(std::span<std::byte> to, const std::byte* from) override {
    host_memory().copy_out(to, from);
  }
  void copy(std::byte* to, std::span<const std::byte> from) override {
    host_memory().copy(to, from);
  }
  void wait() override { ++waits; }
  int waits = 0;
};

/// On the device a kernel takes 1 ms and a mark 2 ms; for the host nothing passes.
class SlowDevice final : public Device {
 public:
  std::string description() const override { return "slow"; }
  Bytes workspace(const Kernel&) const override { return {}; }
  void prepare(const Kernel&) override {}
  void run(const Kernel&, const KernelCall&) override {
    ++runs;
    now_ += 1_ms;
  }
  DeviceMemory& memory() override { return memory_; }
  std::unique_ptr<DeviceTimeline> timeline(std::size_t places) override {
    places_ = places;
    return std::make_unique<Timeline>(*this, places);
  }

  int waits() const { return memory_.waits; }
  std::size_t places() const { return places_; }
  int marks = 0;
  int runs = 0;

 private:
  class Timeline final : public DeviceTimeline {
   public:
    Timeline(SlowDevice& device, std::size_t places) : device_(device), moments_(places) {}
    void mark(std::size_t place) override {
      ++device_.marks;
      moments_.at(place) = device_.now_;
      device_.now_ += 2_ms;
    }
    Duration between(std::size_t from, std::size_t to) const override {
      EXPECT_GT(device_.waits(), 0) << "read before the device was waited for";
      return moments_.at(to) - moments_.at(from);
    }

   private:
    SlowDevice& device_;
    std::vector<Duration> moments_;
  };

  FarMemory memory_;
  Duration now_ = 100_ms;
  std::size_t places_ = 0;
};

}  // namespace shardscope::test
