// Any bytes as token data in every format: either an Error, or a stream that can be read past its
// end and round again.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "backend/data/token_stream.h"
#include "core/base/error.h"
#include "tests/fuzz/memory_file.h"

namespace {

using shardscope::TokenFormat;
using shardscope::TokenStream;

void read_some(const TokenStream& stream) {
  std::array<std::int32_t, 64> inputs{};
  std::array<std::int32_t, 64> targets{};
  stream.require_batch(1);
  for (const std::int64_t position : {std::int64_t{0}, stream.size() - 2, std::int64_t{1} << 40}) {
    stream.read(position, inputs, targets);
    // The stream is a circle: each target is the next position's input, but where the circle
    // closes.
    if (stream.size() > 65 && position == 0 && targets[0] != inputs[1]) std::abort();
  }
  stream.require_vocabulary(0, stream.size(), 50257);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const shardscope::fuzz::MemoryFile file(data, size);
  for (const TokenFormat format : {TokenFormat::text, TokenFormat::uint16, TokenFormat::llm_c}) {
    try {
      read_some(TokenStream::open({file.path()}, format));
    } catch (const shardscope::Error&) {
    }
  }
  return 0;
}
