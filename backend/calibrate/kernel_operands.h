// Memory for a kernel that runs by itself: which operands it wants, how large, and what stands in
// them.
#pragma once

#include <memory>
#include <vector>

#include "backend/device/device.h"
#include "core/base/quantities.h"
#include "core/schedule/kernel.h"

namespace shardscope {

/// What is put into an operand before the kernel runs.
enum class Content : std::uint8_t {
  floats,  ///< from 0.5 to 1.5, so that nothing becomes a denormal when a kernel runs on its own
           ///< output
  halves,  ///< the same in bfloat16
  tokens,  ///< int32 below the kernel's vocabulary
  zeros,
};

/// One operand; absent ones have no bytes.
struct OperandSpec {
  Bytes bytes;
  Content content = Content::floats;
};

/// Operands in the kernel's order (core/schedule/kernel_structs.h), without the workspace.
std::vector<OperandSpec> operand_specs(const Kernel& kernel);

/// The operands of one kernel in memory of their own on the device, ready to run again and again.
class KernelOperands {
 public:
  /// `device` must outlive it.
  KernelOperands(const Kernel& kernel, Device& device);
  KernelCall call() const { return {.operands = pointers_, .slices = slices_, .state = state_}; }

 private:
  std::byte* allocate(const OperandSpec& spec, std::int64_t vocabulary);

  DeviceMemory& memory_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<void*> pointers_;
  std::vector<Slice> slices_;
  StepState state_{.learning_rate = 1e-4, .step = 1};
};

}  // namespace shardscope
