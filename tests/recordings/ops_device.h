// The device that recordings are checked on, and one of its kernels run on vectors.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "backend/device/device.h"
#include "core/schedule/kernel.h"

namespace shardscope::recordings {

/// Memory of one operand; empty: absent.
class Operand {
 public:
  // NOLINTBEGIN(google-explicit-constructor): calls list their operands as they are
  Operand(std::nullptr_t) {}
  template <class T>
  Operand(std::vector<T>& values) : bytes_(std::as_writable_bytes(std::span(values))) {}
  template <class T>
  Operand(std::span<T> values) : bytes_(std::as_writable_bytes(values)) {}
  // NOLINTEND(google-explicit-constructor)

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// The device that `run_kernel` uses from now on: "cpu" (also if never called), "cuda", or
/// "emulated", the CUDA kernels run on the CPU. Throws Error for another name, or without a GPU.
void use_device(const std::string& name);
/// Ends it: when the program ends, the libraries that it loaded end first.
void end_device();
/// The one that is used.
Device& device_in_use();
/// Another than the CPU was asked for.
bool uses_other_device();

/// Operands in the kernel's order without the workspace.
void run_kernel(const Kernel& kernel, std::initializer_list<Operand> operands,
                const std::vector<Slice>& slices = {}, StepState state = {});

}  // namespace shardscope::recordings
