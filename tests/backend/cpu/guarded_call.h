// Runs kernels on buffers with canaries around them, on every device variant of this machine.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/kernel_table.h"
#include "backend/device/device.h"
#include "core/schedule/kernel.h"

namespace shardscope::test {

/// Memory with canaries before and behind it, aligned to 64 bytes.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::int64_t bytes, unsigned char fill = 0xC3);
  void* data() const { return storage_.get() + guard; }
  std::int64_t bytes() const { return bytes_; }
  std::span<std::byte> with_guards() const {
    return {reinterpret_cast<std::byte*>(storage_.get()),
            static_cast<std::size_t>(bytes_ + 2 * guard)};
  }
  bool intact() const;

 private:
  static constexpr std::int64_t guard = 256;
  struct Free {
    void operator()(unsigned char* p) const;
  };
  std::int64_t bytes_;
  std::unique_ptr<unsigned char[], Free> storage_;
};

/// A call under construction: operands in the kernel's order, results read back by index.
class GuardedCall {
 public:
  explicit GuardedCall(Kernel kernel) : kernel_(std::move(kernel)) {}

  template <class T>
  GuardedCall& with(const std::vector<T>& values) {
    operands_.push_back(std::make_unique<GuardedMemory>(bytes_of_values(values)));
    if (!values.empty())
      std::memcpy(operands_.back()->data(), values.data(), bytes_of_values(values));
    return *this;
  }
  GuardedCall& absent() {
    operands_.push_back(nullptr);
    return *this;
  }
  /// The same memory as operand `index`, `offset` floats in.
  GuardedCall& alias(std::size_t index, std::int64_t offset = 0) {
    operands_.push_back(nullptr);
    aliases_.push_back({operands_.size() - 1, index, offset});
    return *this;
  }
  GuardedCall& with_slices(std::vector<Slice> slices, StepState state = {}) {
    slices_ = std::move(slices);
    state_ = state;
    return *this;
  }

  /// Prepares and runs; every canary must stand afterwards, the workspace's too.
  void run(Device& device);

  template <class T = float>
  std::vector<T> result(std::size_t index) const {
    const GuardedMemory& memory = *operands_[index];
    std::vector<T> values(static_cast<std::size_t>(memory.bytes()) / sizeof(T));
    std::memcpy(values.data(), memory.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  struct Alias {
    std::size_t operand, of;
    std::int64_t offset;
  };
  template <class T>
  static std::int64_t bytes_of_values(const std::vector<T>& values) {
    return static_cast<std::int64_t>(values.size() * sizeof(T));
  }

  Kernel kernel_;
  std::vector<std::unique_ptr<GuardedMemory>> operands_;
  std::vector<Alias> aliases_;
  std::vector<Slice> slices_;
  StepState state_;
};

/// A device of one kernel table, without libraries.
std::unique_ptr<Device> make_table_device(const cpu::KernelTable& table, int threads);

/// The CPU device with oneDNN and without, and every instruction set of this processor; `threads`
/// each.
const std::vector<std::unique_ptr<Device>>& devices(int threads);

/// Runs `body(device)` on each variant, with its description in failure messages.
void on_every_device(const std::function<void(Device&)>& body);

/// Normal numbers, the same for the same seed on every platform.
std::vector<float> numbers(std::int64_t count, int seed, double scale = 1.0);

/// Every element within `tolerance` * max(1, |expected|); NaN only where NaN is expected.
void expect_close(const std::vector<float>& actual, const std::vector<double>& expected,
                  double tolerance, const std::string& what);

std::vector<double> widened(const std::vector<float>& values);

}  // namespace shardscope::test
