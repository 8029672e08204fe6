// Any bytes as PyTorch's execution trace: either an Error, or nodes.
#include <cstddef>
#include <cstdint>

#include "core/base/error.h"
#include "tests/fuzz/memory_file.h"
#include "tests/recordings/ports/execution_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const shardscope::fuzz::MemoryFile file(data, size);
  try {
    shardscope::read_execution_trace(file.path());
  } catch (const shardscope::Error&) {
  }
  return 0;
}
