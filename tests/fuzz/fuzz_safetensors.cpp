// Any bytes as a safetensors file: either an Error, or tensors that can each be read whole.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/format/safetensors.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const shardscope::fuzz::MemoryFile memory(data, size);
  try {
    const shardscope::SafetensorsFile file(memory.path());
    for (const auto& tensor : file.header().tensors) {
      if (file.find(tensor.name) == nullptr) std::abort();
      std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.end - tensor.begin));
      file.read(tensor, 0, bytes);
      const auto* expected =
          reinterpret_cast<const std::byte*>(data) + file.header().data_begin + tensor.begin;
      if (!std::equal(bytes.begin(), bytes.end(), expected)) std::abort();
    }
  } catch (const shardscope::Error&) {
  }
  return 0;
}
