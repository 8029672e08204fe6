// Any text as a quantity: either an Error, or a value that its exact text gives back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "core/base/quantities.h"

namespace {

template <class Parse>
void round_trip(Parse parse, std::string_view text) {
  try {
    const auto value = parse(text, "fuzz");
    static_cast<void>(shardscope::rounded_text(value));
    try {
      if (parse(shardscope::exact_text(value), "exact text") != value) std::abort();
    } catch (const shardscope::Error&) {
      std::abort();
    }
  } catch (const shardscope::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  round_trip(shardscope::parse_bytes, text);
  round_trip(shardscope::parse_duration, text);
  round_trip(shardscope::parse_bandwidth, text);
  round_trip(shardscope::parse_flop_rate, text);
  return 0;
}
